/** Decides without the store: by the local fallback, or by failing open or closed. */
import type { Decision } from "../core/decision.ts";
import type { Store } from "../core/store.ts";
import { emit } from "../core/events.ts";
import type { OnStoreError, PartCharge } from "./failure-policy.ts";
import { healthOf, type StoreFailure } from "./store-health.ts";
import { memoryOf } from "./store-memory.ts";
import { reportsOf } from "./store-reports.ts";

/** The effect on requests, for the warning. */
const EFFECTS: Readonly<Record<OnStoreError, string>> = {
  local: 'each process limits on its own (onStoreError: "local").',
  open: 'requests are allowed without being counted (onStoreError: "open").',
  closed: 'requests are rejected (onStoreError: "closed").',
  throw: 'calls are rejected (onStoreError: "throw").',
};

/** Decides a group of charges that can be denied, each charge by its own limiter's failure policy; all or nothing. */
export function decideWithout(
  store: Store,
  charges: readonly PartCharge[],
  failure: StoreFailure,
  now: number,
): Decision[] {
  const { error, shard } = failure;
  if (charges.some(({ failurePolicy }) => failurePolicy.onStoreError === "throw")) throw error;
  report(store, charges, failure);
  const retryAfterMs = healthOf(store).breaker.retryAfterMs(shard, now);
  const isDenied = charges.some(
    ({ failurePolicy: { onStoreError }, policy, cost }) =>
      onStoreError !== "local" && (cost > policy.limit || (onStoreError === "closed" && cost > 0)),
  );
  const local = charges.filter(({ failurePolicy }) => failurePolicy.onStoreError === "local");
  const localDecisions =
    local.length === 0
      ? []
      : memoryOf(store).fallback.applySync(
          local.map(({ failurePolicy, key, cost, mode, hold }) => ({
            policy: failurePolicy.localPolicy,
            key,
            cost,
            hold,
            // If another charge denies the group, nothing is taken here either.
            mode: isDenied ? "peek" : mode,
          })),
        );
  return charges.map((charge) => {
    const i = local.indexOf(charge);
    return i < 0 ? openOrClosed(charge, retryAfterMs) : locally(charge, localDecisions[i] as Decision, retryAfterMs);
  });
}

function report(store: Store, charges: readonly PartCharge[], failure: StoreFailure): void {
  const reports = reportsOf(store);
  reports.warnUnavailable(failure, EFFECTS[(charges[0] as PartCharge).failurePolicy.onStoreError]);
  const { error } = failure;
  if (!reports.isFirstReport(error)) return;
  for (const { failurePolicy, policy } of charges) {
    emit(failurePolicy, { type: "foreign-value", policy: policy.name, error });
  }
}

function openOrClosed({ policy, cost, failurePolicy }: PartCharge, retryAfterMs: number): Decision {
  const { name, limit } = policy;
  const isOpen = failurePolicy.onStoreError === "open";
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
