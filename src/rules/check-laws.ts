/** Checks that the limits of a rule fit together on every plan. The numbers are those of the laws of rules. */

import { show } from "../base/errors.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import { MAX_HELD_LOG_LIMIT, MAX_HELD_WINDOW_MS } from "../holds/hold-charge.ts";
import { isOfAllCallers, missingParts } from "../http/identity/identities.ts";
import { at, type Issues, type Place } from "./issues.ts";
import type { CompiledSpec } from "./limit-text.ts";
import { type CompiledLimit, specsOf } from "./parse-limits.ts";
import type { RuleResult } from "./parse-rule.ts";
import { isWithout } from "./parse-without.ts";
import { isByPlan } from "./parsed-rules.ts";

/** A joint charge has at most 16 parts, of which two are reserved for penalties. */
const MAX_CHARGES = 14;

/** Checks laws 2, 4 and 7, and that what is held can be held. */
export function checkLaws(issues: Issues, { rule, place }: RuleResult, plans: readonly string[]): void {
  if (rule.isUnlimited) return;
  const shared = rule.budgets.flatMap(({ limits }) => limits);
  const all = [...rule.limits, ...shared];
  const cleared = rule.cleared ? [...rule.cleared, ...shared] : [];
  const isPlanned = [...all, ...cleared].some(({ spec }) => isByPlan(spec));
  const cases = isPlanned ? plans : [undefined];
  const before = issues.count;
  for (const plan of cases) {
    // One issue per rule and law: those of other plans have the same cause.
    if (issues.count === before) checkCallers(issues, at(place, "limits"), all, plan, cases);
    // A clearance is a second budget, and no exemption.
    if (issues.count === before && rule.cleared) {
      checkCallers(issues, at(place, "withClearance"), cleared, plan, cases);
    }
    if (issues.count === before) checkCount(issues, place, [all, cleared], plan);
  }
  for (const limit of shared) checkWeight(issues, at(place, "weight"), limit, rule.weight);
  if (rule.holdMs !== undefined) checkHold(issues, at(place, "hold"), [...all, ...cleared]);
}

/** The limits that apply on a plan. */
function applying(limits: readonly CompiledLimit[], plan: string | undefined): readonly CompiledLimit[] {
  return limits.filter(({ spec }) => (isByPlan(spec) ? spec.get(plan as string) : spec)?.policy !== undefined);
}

/** Law 2: a limit whose identity is unknown does not apply, so one must be of an identity that all callers have. */
function checkCallers(
  issues: Issues,
  place: Place,
  limits: readonly CompiledLimit[],
  plan: string | undefined,
  cases: readonly (string | undefined)[],
): void {
  // A limit for callers without an identity applies to all others together with the limit per that identity.
  const isLimited = (limits: readonly CompiledLimit[]) =>
    limits.some(({ identities, without, per }) =>
      without ? false : isOfAllCallers(identities) || limits.some((other) => isWithout(other, per)),
    );
  const here = applying(limits, plan);
  if (isLimited(here)) return;
  const isEverywhere = !cases.some((other) => isLimited(applying(limits, other)));
  const on = isEverywhere ? "" : ` on plan ${show(plan)}`;
  const missing = [...new Set(here.flatMap(({ identities }) => missingParts(identities).slice(0, 1)))];
  const without = missing.map((name) => `${/^(?:[aeio]|u(?!se|ni))/i.test(name) ? "an" : "a"} ${name}`).join(" and ");
  const who = `requests${on}${without && ` without ${without}`}`;
  const message = `${who} would be unlimited; add a limit per ip, network, client or global`;
  issues.add(place, message);
}

/** Law 4. */
function checkCount(
  issues: Issues,
  place: Place,
  alternatives: readonly (readonly CompiledLimit[])[],
  plan: string | undefined,
): void {
  const count = Math.max(...alternatives.map((limits) => applying(limits, plan).length));
  if (count <= MAX_CHARGES) return;
  const on = plan === undefined ? "" : ` on plan ${show(plan)}`;
  const message = `${count} limits would apply to one request${on}; with budgets, at most ${MAX_CHARGES} are allowed`;
  issues.add(at(place, "limits"), message);
}

/** Law 7: the cost of a request is its weight, unless the budget counts a fact or requests in flight. */
function checkWeight(issues: Issues, place: Place, limit: CompiledLimit, weight: number): void {
  for (const [plan, spec] of specsOf(limit)) {
    if (!countsWeight(spec) || weight <= spec.compiled.limit) continue;
    const on = plan === undefined ? "" : ` on plan ${show(plan)}`;
    const message = `${weight} is more than the capacity of budget ${show(limit.name)}${on} (${spec.compiled.limit})`;
    issues.add(place, message);
    return;
  }
}

/** Whether the weight of a request is charged to a shared limit. */
export function countsWeight(spec: CompiledSpec): spec is CompiledSpec & { compiled: CompiledPolicy } {
  return spec.compiled !== undefined && spec.of === undefined && spec.compiled.kind !== "concurrency";
}

function checkHold(issues: Issues, place: Place, limits: readonly CompiledLimit[]): void {
  const held = limits.flatMap((limit) => specsOf(limit).map(([, spec]) => spec)).filter(({ of }) => of !== undefined);
  if (held.length === 0) {
    const message = 'has nothing to hold; count a fact, as in "100000/m of tokens", or remove it';
    issues.add(place, message);
  }
  const reason = held.map(cannotHold).find((reason) => reason !== undefined);
  if (reason !== undefined) issues.add(place, reason);
}

/** Why amounts of a limit can't be held. */
export function cannotHold({ compiled, of, text }: CompiledSpec): string | undefined {
  if (!compiled || of === undefined) return undefined;
  const { queues, list } = compiled.algorithm;
  const what = `can't hold ${of} of ${show(text)}`;
  if (queues) return `${what}: a queue does not support holds; use "burst" or another algorithm`;
  if (list && compiled.limit > MAX_HELD_LOG_LIMIT) {
    return `${what}: holds on a log need a count of at most ${MAX_HELD_LOG_LIMIT}; use "sliding"`;
  }
  if (compiled.windowMs > MAX_HELD_WINDOW_MS) return `${what}: holds need a window or fill time of at most 2^50 ms`;
  return undefined;
}
