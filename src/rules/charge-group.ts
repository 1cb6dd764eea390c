/** The charges of one request in groups that are decided all or nothing, and what they hold. */

import type { PartCharge } from "../core/apply.ts";
import type { Decision } from "../core/decision.ts";
import { chargeTo, takeCharge } from "../core/part-charges.ts";
import { createHold } from "../holds/held-charges.ts";
import { holdTo } from "../holds/hold-charge.ts";
import { type Hold, parseHoldOptions } from "../holds/hold-options.ts";
import type { RuleCharge } from "./compiled-rules.ts";
import { isByPlan, type LimitSpec, type ParsedRule } from "./parsed-rules.ts";

/** One charge of one request. */
export interface ActiveCharge {
  readonly rule: ParsedRule;
  readonly charge: RuleCharge;
  readonly key: string;
  readonly amount: number;
}

/** Charges that are decided all or nothing. */
export interface Group {
  readonly mode: "enforced" | "shadow" | "flag";
  readonly active: readonly ActiveCharge[];
  readonly charges: readonly PartCharge[];
  /** Absent until the charges were applied. */
  decision?: Decision;
}

/** A hold, and what it belongs to. */
export interface OpenHold {
  readonly hold: Hold;
  readonly group: Group;
  /** Whether it is a lease that ends with the request. */
  readonly isLease: boolean;
}

/** The id and duration of the holds of one request. Leases are held apart, since they last for another time. */
export type HoldIds = {
  readonly [mode in "hold" | "lease"]: { readonly id: string; readonly forMs: number } | undefined;
};

export const NO_HOLDS: HoldIds = { hold: undefined, lease: undefined };

/** Creates a group. */
export function groupOf(mode: Group["mode"], active: readonly ActiveCharge[], ids: HoldIds): Group {
  const charges: PartCharge[] = [];
  for (const { charge, key, amount } of active) {
    const { mode } = charge;
    if (mode === "penalty" || mode === "peek") {
      charges.push(chargeTo(charge.part, key, amount, mode));
      continue;
    }
    const hold = mode === "take" ? undefined : ids[mode];
    // An estimate of 0 holds 1, because only the actual amount of what is held is charged later.
    charges.push(
      hold ? holdTo(charge.part, key, Math.max(1, amount), hold, true) : takeCharge(charge.part, key, amount),
    );
  }
  return { mode, active, charges };
}

/** Whether a charge is that of a penalty, which limits nothing while the key is not blocked. */
export function isPenalty({ mode }: RuleCharge): boolean {
  return mode === "penalty" || mode === "peek";
}

/** Creates the holds of a group that was admitted. */
export function holdsOf(group: Group, holdIds: HoldIds, sentAt: number): OpenHold[] {
  const { charges, decision } = group;
  if (!decision?.allowed) return [];
  const indexes = charges.map((_, i) => i);
  return (["hold", "lease"] as const).flatMap((mode) => {
    const ids = holdIds[mode];
    if (!ids || !charges.some(({ hold }) => hold?.id === ids.id)) return [];
    const hold = createHold(decision, { ...ids, charges, indexes }, sentAt);
    return [{ hold, group, isLease: mode === "lease" }];
  });
}

/** The charge that a decision is about. */
export function limitingOf({ active }: Group, decision: Decision): ActiveCharge | undefined {
  const { parts } = decision;
  if (!parts) return active[0];
  for (let i = 0; i < parts.length; i++) {
    const { policy, allowed, remaining, retryAfterMs } = parts[i] as Decision;
    const isLimiting =
      policy === decision.policy &&
      allowed === decision.allowed &&
      remaining === decision.remaining &&
      retryAfterMs === decision.retryAfterMs;
    if (isLimiting) return active[i];
  }
  return active[0];
}

/** The ids of what the charges hold. */
export function holdIdsOf(active: readonly ActiveCharge[]): HoldIds {
  return hasHolds(active) ? holdIds(active) : NO_HOLDS;
}

function hasHolds(active: readonly ActiveCharge[]): boolean {
  for (const { charge } of active) if (charge.mode === "hold" || charge.mode === "lease") return true;
  return false;
}

function holdIds(active: readonly ActiveCharge[]): HoldIds {
  const idFor = (mode: "hold" | "lease", durationOf: (active: ActiveCharge) => number) => {
    const durations = active.filter(({ charge }) => charge.mode === mode).map(durationOf);
    return durations.length > 0 ? parseHoldOptions({}, Math.min(...durations)) : undefined;
  };
  return {
    hold: idFor("hold", ({ rule }) => rule.holdMs as number),
    lease: idFor("lease", ({ charge }) => charge.part.policy.windowMs),
  };
}

/** The limits of a rule and of its budgets, on all plans. */
export function specsOf({ limits, budgets }: ParsedRule): LimitSpec[] {
  return [...limits, ...budgets.flatMap((budget) => budget.limits)].flatMap(({ spec }) =>
    isByPlan(spec) ? [...spec.values()] : [spec],
  );
}

/** The path of a rule's pattern, if it has only one: which of several has matched is not known here. */
export function routeOf({ patterns }: ParsedRule): string | undefined {
  const [pattern, ...others] = patterns;
  return others.length > 0 ? undefined : pattern?.text.replace(/^\S+ (?=\/)/, "");
}

/** The decision on a request that no limit is enforced on. */
export function notLimited(): Decision {
  return { allowed: true, policy: "", limit: 0, remaining: 0, resetAfterMs: 0, nextAfterMs: 0, unknown: true };
}
