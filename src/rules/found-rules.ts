/** The rules that were found for a request, and their charges with keys and amounts. */

import { optionError, SluiceError } from "../base/errors.ts";
import { isCost } from "../core/charge.ts";
import type { ResolvedPolicy } from "../core/policy.ts";
import { type Fact, type Known, PENDING, type RequestValues } from "../http/request-values.ts";
import type { ActiveCharge } from "./charge-group.ts";
import { ANY_PLAN, type CompiledRule, type RulePlan } from "./compiled-rules.ts";

/** A rule that applies to a request, and the index of its buckets. */
export interface FoundRule {
  readonly compiled: CompiledRule;
  readonly variant: number;
  /** A list of only this one. */
  readonly alone: readonly FoundRule[];
}

/** The charges of a rule for a plan. */
export function planFor(
  { isByPlan, variants, cleared }: CompiledRule,
  variant: number,
  plan: string,
  isCleared = false,
): RulePlan {
  const plans = (isCleared && cleared) || variants;
  return plans[variant]?.get(isByPlan ? plan : ANY_PLAN) as RulePlan;
}

/** Whether the caller has a clearance, if the rule makes a difference for it. */
export function isCleared({ cleared }: CompiledRule, values: RequestValues): Known<boolean> {
  if (!cleared) return false;
  const clearance = values.fact("clearance");
  return clearance === PENDING ? PENDING : clearance !== undefined;
}

/** Counts a request whose keys are known for limits that may never apply. */
export function watchLimits({ compiled, variant }: FoundRule, plan: string, values: RequestValues): void {
  const { charges } = planFor(compiled, variant, plan, isCleared(compiled, values) === true);
  if (!compiled.watch?.record(charges, values)) compiled.watch = undefined;
}

export function dependOnPlan(rules: readonly FoundRule[]): boolean {
  for (const { compiled } of rules) if (compiled.isByPlan) return true;
  return false;
}

/** Adds a charge. A bucket that several readings of one path charge is charged once, by the highest amount. */
export function add(active: ActiveCharge[], found: ActiveCharge, mayRepeat: boolean): void {
  const { charge, key, amount } = found;
  const i = mayRepeat
    ? active.findIndex(
        (other) =>
          other.key === key &&
          other.charge.part.policy.id === charge.part.policy.id &&
          other.charge.group === charge.group,
      )
    : -1;
  if (i < 0) active.push(found);
  else if ((active[i] as ActiveCharge).amount < amount) active[i] = found;
}

export function distinct(found: readonly FoundRule[]): FoundRule[] {
  return found.filter(
    ({ compiled, variant }, i) =>
      found.findIndex((other) => other.compiled === compiled && other.variant === variant) === i,
  );
}

/** The policies of the enforced charges. A list is reused, since header fields are cached by its identity. */
export function policiesOf(
  active: readonly ActiveCharge[],
  lists: RulePlan["policyLists"] | undefined,
  applied: number,
): readonly ResolvedPolicy[] {
  let policies = lists?.get(applied);
  if (!policies) {
    policies = active.flatMap(({ charge }) => (charge.group === "enforced" ? [charge.resolved] : []));
    lists?.set(applied, policies);
  }
  return policies;
}

/** Whether one of the charges applies to every caller. */
export function hasUniversal(active: readonly ActiveCharge[]): boolean {
  for (const { charge } of active) if (charge.isUniversal) return true;
  return false;
}

/** Whether a limit that applies to every caller has a key. Without a charge, its override is unlimited. */
export function isIdentified(rules: readonly FoundRule[], plan: string, values: RequestValues): boolean {
  return rules.some(({ compiled, variant }) =>
    planFor(compiled, variant, plan).charges.some(
      ({ isUniversal, limit }) => isUniversal && values.key(limit.identities) !== undefined,
    ),
  );
}

export function foundRule(compiled: CompiledRule, variant: number): FoundRule {
  const found: { compiled: CompiledRule; variant: number; alone: readonly FoundRule[] } = {
    compiled,
    variant,
    alone: [],
  };
  found.alone = [found];
  return found;
}

/** Returns the value of a counted fact, or throws. */
export function checkAmount(name: string, value: Fact): number {
  if (isCost(value)) return value;
  const expected = "a whole number from 0 to 2147483647, because a limit counts it";
  throw optionError("invalid-cost", `facts.${name}`, expected, value);
}

export function unidentified(rule: string): SluiceError {
  const message = `No limit of rule "${rule}" applies to a request without an IP address. Pass ip, or the facts that identify the caller.`;
  return new SluiceError("unidentified", message, { option: "ip", expected: "the IP address of the caller" });
}
