/** The acts of holds: what their calls mean, and what is done about them if the store fails. */

import { monotonicMs } from "../base/clock.ts";
import type { SluiceError } from "../base/errors.ts";
import { andThen, type MaybePromise } from "../base/maybe-promise.ts";
import { type Act, DEMAND, type PartCharge } from "../core/apply.ts";
import type { Decision, DecisionSource } from "../core/decision.ts";
import { emitFor } from "../core/events.ts";
import { holdTerms } from "./hold-terms.ts";
import { queueOf } from "./settlement-queue.ts";

/** Holds, and takes in the same step: `hold` and `holdAll`. */
export const HOLD: Act = {
  // Not copied from TAKE: a bundler would keep a spread in applications without holds.
  isCached: true,
  isObserved: true,
  without: "decide",

  // It replaces a hold that was to be cancelled, because it had timed out.
  applied(charge) {
    if (charge.mode === "hold") queueOf(charge.engine.store).forget(charge);
  },

  /**
   * Cancels a hold that a failed call may have made. Not one with an id of the caller: such a hold may have existed before,
   * and its work goes on.
   */
  failed(charge, { error, wasSent }) {
    const { mode, hold, isNewHold } = charge;
    if (!wasSent || mode !== "hold" || !hold || !isNewHold) return;
    const cancel = settlementOf(charge, hold.id, 0);
    queueOf(charge.engine.store).add({ charge: cancel, endsAt: monotonicMs() + hold.forMs, error, onLost() {} });
  },

  undo(charge, decision) {
    const { mode, hold } = charge;
    if (mode !== "hold" || !hold) return undefined;
    return settleCharge(settlementOf(charge, hold.id, 0), decision.source, monotonicMs() + hold.forMs);
  },
};

/** The charge that settles a hold. */
export function settlementOf(charge: PartCharge, id: string, cost: number): PartCharge {
  const { engine, policy, context, observed, key } = charge;
  return { engine, policy, context, observed, key, cost, mode: "settle", hold: holdTerms(id) };
}

/**
 * Settles a hold that `source` has granted; `undefined`: the store. Returns `undefined` if the store fails: the settlement
 * is then retried in the background until `endsAt`. Throws instead if `onStoreError` is `"throw"`. Without a promise if the
 * store is synchronous.
 */
export function settleCharge(
  charge: PartCharge,
  source: DecisionSource | undefined,
  endsAt: number,
): MaybePromise<Decision | undefined> {
  const { policy, cost } = charge;
  return sendOrRetry(charge, source, {
    endsAt,
    onLost: (error) =>
      emitFor(
        charge,
        policy.kind === "concurrency"
          ? { type: "hold-lost", policy: policy.name, error }
          : { type: "settle-lost", policy: policy.name, cost, error },
      ),
    onApplied: (decision) => reportSettled(charge, decision),
  });
}

/** Reports a settlement that has reached the store, and what it did not charge. */
export function reportSettled(charge: PartCharge, decision: Decision): void {
  const { policy, observed, cost } = charge;
  const { allowed, forgiven } = decision;
  if (allowed) for (let own = observed; own; own = own.next) own.settled(cost - (forgiven ?? 0));
  if (forgiven) emitFor(charge, { type: "cost-forgiven", policy: policy.name, cost: forgiven });
}

/**
 * Renews a hold that `source` has granted. If the store fails, it is retried in the background until `endsAt`. Calls
 * `onRenewed` when the hold has its new end.
 */
export async function renewCharge(
  charge: PartCharge,
  source: DecisionSource | undefined,
  endsAt: number,
  onRenewed: () => void,
): Promise<Decision> {
  const { name, limit } = charge.policy;
  const decision = await sendOrRetry(charge, source, {
    endsAt,
    onLost: (error) => emitFor(charge, { type: "hold-lost", policy: name, error }),
    onApplied: onRenewed,
  });
  if (decision) {
    if (decision.allowed && decision.source === undefined) onRenewed();
    return decision;
  }
  const fields = { policy: name, limit, remaining: 0, resetAfterMs: 0, nextAfterMs: 0, unknown: true } as const;
  return { allowed: true, ...fields, degraded: true };
}

/** What is done about a call that waits for its store. */
interface Retry {
  /** When the hold ends, in monotonic ms. */
  readonly endsAt: number;
  /** Called if the hold ends first. */
  readonly onLost: (error: SluiceError) => void;
  /** Called with the decision if the store has applied it after all. */
  readonly onApplied: (decision: Decision) => void;
}

/** Applies a charge; `undefined` if the store fails, and the call waits for it. */
function sendOrRetry(
  charge: PartCharge,
  source: DecisionSource | undefined,
  retry: Retry,
): MaybePromise<Decision | undefined> {
  const { engine, context } = charge;
  const toDecision = ([decisions]: Decision[][]): Decision | undefined => decisions?.[0];
  if (engine.syncStore) return andThen(engine.apply([[charge]], DEMAND), toDecision);
  const queue = queueOf(engine.store);
  if (source === undefined) queue.forget(charge);
  const act: Act = {
    frees: true,
    source,
    without(_, { error }) {
      queue.add({ charge, error, ...retry });
      if (context.onStoreError === "throw") throw error;
      return [];
    },
  };
  return andThen(engine.apply([[charge]], act), toDecision);
}
