/** What happens to a call if its store fails: it is decided without the store, lost, or rejected. */

import { monotonicMs } from "../base/clock.ts";
import type { Act, OnStoreError, PartCharge, PartGroup } from "../core/apply.ts";
import type { Charge } from "../core/charge.ts";
import type { Decision, DecisionSource } from "../core/decision.ts";
import { emitFor } from "../core/events.ts";
import type { Store, StoreFailure } from "../core/store.ts";
import { fallbackOf } from "./fallback.ts";
import { healthOf } from "./store-health.ts";
import { reportsOf } from "./store-reports.ts";

/** The effect on requests, for the warning. */
const EFFECTS: Readonly<Record<OnStoreError, string>> = {
  local: 'each process limits on its own (onStoreError: "local").',
  open: 'requests are allowed without being counted (onStoreError: "open").',
  closed: 'requests are rejected (onStoreError: "closed").',
  throw: 'calls are rejected (onStoreError: "throw").',
};

/** The decisions of an act whose store failed. Throws if the caller has to know. */
export function withoutStore(
  store: Store,
  groups: readonly PartGroup[],
  act: Act,
  failure: StoreFailure,
): Decision[][] {
  const { without, failed } = act;
  const decide = (own: readonly PartGroup[]) => own.map((group) => decideWithout(store, group, failure));
  // Of all groups first: deciding one may throw.
  if (failed) for (const group of groups) for (const charge of group) failed(charge, failure);
  if (without === "decide") return decide(groups);
  if (typeof without === "function") return without(groups, failure, decide);
  const { error } = failure;
  const charges = groups.flat();
  const isThrown = charges.some(({ context }) => context.onStoreError === "throw");
  if (without === "throw" || (without === "lose-or-throw" && isThrown)) throw error;
  for (const charge of charges) {
    emitFor(charge, { type: "refund-lost", policy: charge.policy.name, cost: charge.cost, error });
  }
  return [];
}

/** Applies charges to what was granted without the store. */
export function applyElsewhere(store: Store, groups: readonly PartGroup[], source: DecisionSource): Decision[][] {
  return groups.map((group) =>
    group.map((charge) => {
      const { name, limit } = charge.policy;
      if (source === "local") {
        return { ...(fallbackOf(store).applySync([toLocal(charge)])[0] as Decision), degraded: true, source };
      }
      const fields = { policy: name, limit, remaining: limit, resetAfterMs: 0, nextAfterMs: 0 };
      return { allowed: true, ...fields, degraded: true, source };
    }),
  );
}

/** The same charge to this process's share of the policy. */
function toLocal({ context, key, cost, mode, hold }: PartCharge): Charge {
  return { policy: context.localPolicy, key, cost, mode, hold };
}

/** Decides a group of charges that can be denied, each charge by the options of its own limiter; all or nothing. */
function decideWithout(store: Store, charges: PartGroup, failure: StoreFailure): Decision[] {
  const { error, shard } = failure;
  if (charges.some(({ context }) => context.onStoreError === "throw")) throw error;
  report(store, charges, failure);
  const retryAfterMs = healthOf(store).breaker.retryAfterMs(shard, monotonicMs());
  const isDenied = charges.some(
    ({ context: { onStoreError }, policy, cost }) =>
      onStoreError !== "local" && (cost > policy.limit || (onStoreError === "closed" && cost > 0)),
  );
  const local = charges.filter(({ context }) => context.onStoreError === "local");
  const localDecisions =
    local.length === 0
      ? []
      : fallbackOf(store).applySync(
          // If another charge denies the group, nothing is taken here either.
          local.map((charge) => (isDenied ? { ...toLocal(charge), mode: "peek" } : toLocal(charge))),
        );
  return charges.map((charge) => {
    const i = local.indexOf(charge);
    return i < 0 ? openOrClosed(charge, retryAfterMs) : locally(charge, localDecisions[i] as Decision, retryAfterMs);
  });
}

function report(store: Store, charges: PartGroup, failure: StoreFailure): void {
  const reports = reportsOf(store);
  reports.warnUnavailable(failure, EFFECTS[(charges[0] as PartCharge).context.onStoreError]);
  const { error } = failure;
  if (!reports.isFirstReport(error)) return;
  for (const charge of charges) emitFor(charge, { type: "foreign-value", policy: charge.policy.name, error });
}

function openOrClosed({ policy, cost, context }: PartCharge, retryAfterMs: number): Decision {
  const { name, limit } = policy;
  const isOpen = context.onStoreError === "open";
  const source = isOpen ? "open" : "closed";
  const fields = { policy: name, limit, remaining: isOpen ? limit : 0, resetAfterMs: 0, nextAfterMs: 0 } as const;
  // Costs that never fit, and cost 0, need no store.
  if (cost > limit) return { ...fields, allowed: false, retryAfterMs: null, degraded: true, source };
  if (isOpen || cost === 0) return { ...fields, allowed: true, degraded: true, source };
  return {
    allowed: false,
    policy: name,
    limit,
    remaining: 0,
    resetAfterMs: retryAfterMs,
    nextAfterMs: retryAfterMs,
    retryAfterMs,
    unavailable: true,
    source,
  };
}

function locally({ policy, cost }: PartCharge, decision: Decision, retryAfterMs: number): Decision {
  // More than this process's share, but not more than the limit: the store may allow it after recovery.
  if (!decision.allowed && decision.retryAfterMs === null && cost <= policy.limit) {
    return { ...decision, retryAfterMs, degraded: true, source: "local" };
  }
  return { ...decision, degraded: true, source: "local" };
}
