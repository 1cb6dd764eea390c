/** Describes rules as text, for people: what applies to one request, or a table of all rules. */

import type { CompiledRule, RuleCharge } from "./compiled-rules.ts";
import { isByPlan, type ParsedRule } from "./parsed-rules.ts";
import type { RuleEngine } from "./rule-engine.ts";
import { type ExplainedRule, rulesOf } from "./rule-match.ts";
import type { FactValues } from "./rules-data.ts";

/** Describes what one request is charged. */
export function explainRequest(engine: RuleEngine, method: string, path: string, facts: FactValues<string>): string {
  const { rules, isExempt } = rulesOf(engine, method, path, facts);
  const names = rules.map(({ found }) => `rule "${found.compiled.rule.name}"`);
  const [{ found }] = rules as [ExplainedRule];
  const where = rules.length > 1 ? "unusual path: every rule that a router could apply" : whereOf(found.compiled.rule);
  const head = `${method} ${path}  ->  ${names.join(", ")} (${where})`;
  if (isExempt) return `${head}\n  Not limited and not counted.\n`;
  const rows = rules.flatMap(({ found, charges }) =>
    charges.map(({ charge, amount }) => [
      charge.part.policy.name,
      charge.limit.per,
      charge.text,
      amountText(charge, amount),
      sharedBy(engine, charge, found.compiled),
      ...(charge.group === "enforced"
        ? []
        : [charge.group === "shadow" ? "not enforced (shadow)" : "not enforced (flag)"]),
    ]),
  );
  const table = columns([["policy", "per", "limit", "charge", "shared by"], ...rows], [3]);
  return `${head}\n${table}\n${summary(rules)}\n`;
}

/** Lists all rules, one line per pattern. */
export function explainRules(engine: RuleEngine): string {
  const rows = [...engine.rules, engine.fallback].flatMap((compiled) => {
    const { rule } = compiled;
    const limits = rule.isUnlimited ? "unlimited" : limitsText(rule);
    const budgets = rule.budgets.map(({ name }) => (rule.weight === 1 ? name : `${name} x${rule.weight}`)).join(", ");
    const patterns = rule.patterns.length > 0 ? rule.patterns.map(({ text }) => text) : ["(any other request)"];
    return patterns.map((pattern, i) =>
      i === 0 ? [rule.name, pattern, limits, budgets || "-", notesOf(rule)] : ["", pattern, "", "", ""],
    );
  });
  return `${columns([["rule", "match", "own limits", "budgets", "settings"], ...rows], [])}\n`;
}

function whereOf({ path, name }: ParsedRule): string {
  return name === "fallback" ? "no rule matches" : `${path}, first match`;
}

function amountText({ of, mode }: RuleCharge, amount: number): string {
  if (mode === "lease") return `${amount} in flight`;
  if (of === undefined) return String(amount);
  return mode === "hold" ? `${amount} ${of} held` : `${amount} ${of}`;
}

/** How many rules charge a policy. */
function sharedBy({ rules, fallback }: RuleEngine, { limit }: RuleCharge, { rule }: CompiledRule): string {
  if (rule.limits.includes(limit)) return "-";
  const users = [...rules, fallback].filter(({ rule }) => rule.budgets.some(({ limits }) => limits.includes(limit)));
  return users.length === 1 ? "1 rule" : `${users.length} rules`;
}

const WITHOUT_STORE = {
  local: "limited per process",
  open: "not limited",
  closed: "rejected with 503",
  throw: "passed to onError",
} as const;

function summary(rules: readonly ExplainedRule[]): string {
  const keys = new Set(rules.flatMap(({ charges }) => charges.map(({ charge }) => charge.limit.per)));
  const steps =
    keys.size === 1
      ? "Every store: one step."
      : `Redis: one round trip. Redis Cluster, Durable Objects: ${keys.size} keys, so check, take, refund.`;
  const failures = new Set(rules.map(({ found }) => WITHOUT_STORE[found.compiled.rule.onStoreError]));
  return `All or nothing. ${steps} Store unavailable: ${[...failures].join(", ")}.`;
}

function limitsText({ limits }: ParsedRule): string {
  const texts = limits.map(({ per, spec }) => {
    const text = isByPlan(spec) ? [...spec].map(([plan, { text }]) => `${plan}: ${text}`).join(", ") : spec.text;
    return `${per} ${isByPlan(spec) ? `{ ${text} }` : text}`;
  });
  return texts.join("; ") || "-";
}

/** The settings that differ from the defaults. */
function notesOf({ mode, onStoreError, refundIf, when, perPattern, holdMs, limits }: ParsedRule): string {
  const actions = limits.filter(({ action }) => action !== "deny").map(({ per, action }) => `${per}: ${action}`);
  return [
    ...when.map(({ fact, values }) => `when ${fact} is ${values.join(" or ")}`),
    ...(mode === "shadow" ? ["shadow"] : []),
    ...(onStoreError === "local" ? [] : [onStoreError]),
    ...(refundIf ? [`refund if ${refundIf}`] : []),
    ...(perPattern ? ["per pattern"] : []),
    ...(holdMs === undefined ? [] : [`hold ${holdMs} ms`]),
    ...actions,
  ].join(", ");
}

/** Aligns rows in columns. The columns at `right` are aligned to the right. */
function columns(rows: readonly (readonly string[])[], right: readonly number[]): string {
  const count = Math.max(...rows.map((row) => row.length));
  const widths = Array.from({ length: count }, (_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, i) => (right.includes(i) ? cell.padStart(widths[i] as number) : cell.padEnd(widths[i] as number)))
      .join("   ");
  return rows.map((row) => `  ${line(row)}`.trimEnd()).join("\n");
}
