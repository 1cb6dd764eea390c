/** Reads PromQL expressions with the grammar of Prometheus. */
import { parser } from "@prometheus-io/lezer-promql";

export interface ParsedExpression {
  /** The parts that are not valid PromQL. */
  readonly errors: readonly string[];
  /** The names of metrics and recorded series. */
  readonly metrics: ReadonlySet<string>;
  /** The names of labels in selectors and groupings. */
  readonly labels: ReadonlySet<string>;
}

/** Parses an expression. Variables of Grafana are replaced by what Grafana would insert. */
export function parseExpression(expression: string): ParsedExpression {
  const text = withoutVariables(expression);
  const errors: string[] = [];
  const metrics = new Set<string>();
  const labels = new Set<string>();
  parser.parse(text).iterate({
    enter({ type, from, to, node }) {
      const found = text.slice(from, to);
      if (type.isError) errors.push(`at ${from}: ${text.slice(Math.max(0, from - 20), to + 20)}`);
      if (type.name === "Identifier" && node.parent?.name === "VectorSelector") metrics.add(found);
      if (type.name === "LabelName") labels.add(found);
    },
  });
  return { errors, metrics, labels };
}

/** An expression as Grafana sends it, with all rules and an interval of a minute. */
export function withoutVariables(expression: string): string {
  return expression.replaceAll("$__rate_interval", "1m").replaceAll("$rule", ".*");
}
