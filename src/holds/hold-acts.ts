/** What the calls of charges that hold have to do besides: settle, renew, cancel, and retry that in the background. */
import { holdTerms } from "./hold-terms.ts";
import { monotonicMs } from "../core/clock.ts";
import type { Decision, DecisionSource } from "../core/decision.ts";
import type { SluiceError } from "../core/errors.ts";
import type { MaybePromise } from "../core/maybe-promise.ts";
import type { HoldActs, JointCharge } from "../core/limiter-part.ts";
import { emit, emitForgiven } from "../core/events.ts";
import { isStoreFailure } from "../remote/store-health.ts";
import { queueOf } from "./settlement-queue.ts";

/** The acts of every charge that holds. Other charges may be copies of one, in mode `peek`. */
export const holdActs: HoldActs = {
  // It replaces a hold that was to be cancelled, because it had timed out.
  applied(charge) {
    if (charge.mode === "hold") queueOf(charge.port.store).forget(charge);
  },

  /**
   * Cancels a hold that a failed call may have made. Not one with an id of the caller: such a hold may have existed before,
   * and its work goes on.
   */
  failed(charge, { error, wasSent }) {
    const { mode, hold, isNewHold } = charge;
    if (!wasSent || mode !== "hold" || !hold || !isNewHold) return;
    const cancel = settlementOf(charge, hold.id, 0);
    queueOf(charge.port.store).add({ charge: cancel, endsAt: monotonicMs() + hold.forMs, error, onLost() {} });
  },

  undo(charge, decision) {
    const { mode, hold } = charge;
    if (mode !== "hold" || !hold) return undefined;
    return settleCharge(settlementOf(charge, hold.id, 0), decision?.source, monotonicMs() + hold.forMs);
  },
};

/** The charge that settles a hold. */
export function settlementOf({ port, policy, failurePolicy, key }: JointCharge, id: string, cost: number): JointCharge {
  return { port, policy, failurePolicy, key, cost, mode: "settle", hold: holdTerms(id) };
}

/**
 * Settles a hold that `source` has granted; `undefined`: the store. Returns `undefined` if the store fails: the settlement
 * is then retried in the background until `endsAt`. Throws instead if `onStoreError` is `"throw"`. Without a promise if the
 * store is synchronous.
 */
export function settleCharge(
  charge: JointCharge,
  source: DecisionSource | undefined,
  endsAt: number,
): MaybePromise<Decision | undefined> {
  return charge.port.syncStore ? charge.port.applyOne(charge) : settleRemote(charge, source, endsAt);
}

async function settleRemote(
  charge: JointCharge,
  source: DecisionSource | undefined,
  endsAt: number,
): Promise<Decision | undefined> {
  const { port, policy, cost, failurePolicy } = charge;
  if (source !== undefined) return port.applyElsewhere?.(charge, source);
  const queue = queueOf(port.store);
  queue.forget(charge);
  const reply = await port.send(charge);
  if (!isStoreFailure(reply)) return reply;
  const onLost = (error: SluiceError) =>
    emit(
      failurePolicy,
      policy.kind === "concurrency"
        ? { type: "hold-lost", policy: policy.name, error }
        : { type: "settle-lost", policy: policy.name, cost, error },
    );
  const onApplied = (decision: Decision) => {
    if (decision.allowed) failurePolicy.observed?.settled(cost - (decision.forgiven ?? 0));
    emitForgiven(failurePolicy, policy.name, decision);
  };
  queue.add({ charge, endsAt, error: reply.error, onLost, onApplied });
  if (failurePolicy.onStoreError === "throw") throw reply.error;
  return undefined;
}

/**
 * Renews a hold that `source` has granted. If the store fails, it is retried in the background until `endsAt`. Calls
 * `onRenewed` when the hold has its new end.
 */
export async function renewCharge(
  charge: JointCharge,
  source: DecisionSource | undefined,
  endsAt: number,
  onRenewed: () => void,
): Promise<Decision> {
  const { port, policy, failurePolicy } = charge;
  if (source !== undefined && port.applyElsewhere) return port.applyElsewhere(charge, source);
  const queue = queueOf(port.store);
  queue.forget(charge);
  const reply = await port.send(charge);
  if (!isStoreFailure(reply)) {
    if (reply.allowed) onRenewed();
    return reply;
  }
  const { error } = reply;
  const onLost = (error: SluiceError) => emit(failurePolicy, { type: "hold-lost", policy: policy.name, error });
  queue.add({ charge, endsAt, error, onLost, onApplied: onRenewed });
  if (failurePolicy.onStoreError === "throw") throw error;
  const { name, limit } = policy;
  const fields = { policy: name, limit, remaining: 0, resetAfterMs: 0, nextAfterMs: 0, unknown: true } as const;
  return { allowed: true, ...fields, degraded: true };
}
