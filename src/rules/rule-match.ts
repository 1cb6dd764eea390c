/** What applies to a request, without charging it: for `find` and `explain`. */
import { isCost } from "../core/charge.ts";
import type { Per } from "../http/identity/identities.ts";
import { PENDING, RequestValues } from "../http/request-values.ts";
import type { RuleCharge } from "./compiled-rules.ts";
import { type FoundRule, isCleared, planFor } from "./found-rules.ts";
import { unknownParts } from "./limit-watch.ts";
import type { RuleEngine } from "./rule-engine.ts";
import type { FactValues, LimitText } from "./rules-data.ts";

/** The rule of a request, and its policies with the amounts they would be charged. */
export interface RuleMatch {
  /** The rule. An unusual spelling of a path may match further ones, whose policies are listed as well. */
  readonly rule: string;
  /** The policies for the caller's plan, also those whose identity the caller may not have. */
  readonly policies: readonly RulePolicy[];
}

/** A policy that applies to a request. */
export interface RulePolicy {
  /** Its name in headers, decisions and logs: `report.tenant@pro`. */
  readonly name: string;
  /** What it is counted per. */
  readonly per: Per;
  /** The limit as text. */
  readonly limit: LimitText;
  /** What the request is charged. 0 if a fact is counted that is not known. */
  readonly amount: number;
}

/** A charge, and the parts of its identity that are not among the facts. */
interface ExplainedCharge {
  readonly charge: RuleCharge;
  readonly amount: number;
  readonly unknown: readonly string[];
}

/** A rule that applies, and its charges for the caller's plan. */
export interface ExplainedRule {
  readonly found: FoundRule;
  readonly plan: string;
  readonly charges: readonly ExplainedCharge[];
}

/** The rules that apply to a request with known facts. `exempt`: the request is not limited by them. */
export function rulesOf(
  engine: RuleEngine,
  method: string,
  path: string,
  facts: FactValues<string>,
): { readonly rules: readonly ExplainedRule[]; readonly isExempt: boolean } {
  const unknown = (): undefined => undefined;
  const values = new RequestValues({
    method,
    path,
    ip: unknown,
    user: unknown,
    apiKey: unknown,
    fact: (name) => (Object.hasOwn(facts, name) ? facts[name] : undefined),
  });
  const readings = engine.readingsOf(method, path);
  const found = engine.rulesFor(readings, values);
  // Facts are values here, so nothing is pending.
  if (found === PENDING || found === undefined || found.length === 0) {
    const exempt = engine.firstOf(readings, values) as FoundRule;
    return { rules: [{ found: exempt, plan: "", charges: [] }], isExempt: true };
  }
  const rules = found.map((one): ExplainedRule => {
    const plan = one.compiled.isByPlan ? (engine.planOf(values) as string) : "";
    const { charges: written, unlimited } = planFor(
      one.compiled,
      one.variant,
      plan,
      isCleared(one.compiled, values) === true,
    );
    const charges = [...written, ...unlimited].map((limited) => {
      const { rule } = one.compiled;
      const { identities, without } = limited.limit;
      const unknown = unknownParts(values, without ?? identities);
      if (without && unknown.length === 0) return undefined;
      const key = values.key(identities);
      const spec = typeof key === "string" ? engine.parsed.overrides.get(key)?.get(limited.limit.name) : undefined;
      const chosen = spec ? engine.table.override(rule, limited, spec) : limited.part ? limited : undefined;
      return chosen && { charge: chosen, amount: amountOf(chosen, values), unknown };
    });
    return { found: one, plan, charges: charges.filter((charge) => charge !== undefined) };
  });
  return { rules, isExempt: false };
}

/** The result of `find`. */
export function matchRequest(engine: RuleEngine, method: string, path: string, facts: FactValues<string>): RuleMatch {
  const { rules } = rulesOf(engine, method, path, facts);
  const [first] = rules as [ExplainedRule];
  const policies = rules.flatMap(({ charges }) =>
    charges.map(({ charge, amount }): RulePolicy => {
      return { name: charge.part.policy.name, per: charge.limit.per, limit: charge.text, amount };
    }),
  );
  return { rule: first.found.compiled.rule.name, policies };
}

function amountOf({ of, amount, mode }: RuleCharge, values: RequestValues): number {
  if (of === undefined || mode === "lease") return amount;
  const counted = values.fact(of);
  return isCost(counted) ? counted : 0;
}
