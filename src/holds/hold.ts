/** Reserves amounts, and settles them when the actual cost is known. */

import { monotonicMs } from "../base/clock.ts";
import { SluiceError } from "../base/errors.ts";
import { andThen, type MaybePromise } from "../base/maybe-promise.ts";
import type { Act, Part } from "../core/apply.ts";
import { checkKey } from "../core/charge.ts";
import { type ComposableLimiter, chargeTo, partsOf } from "../core/part-charges.ts";
import type { RateLimiter, SyncRateLimiter } from "../core/rate-limiter.ts";
import { checkActual, checkAmount, settleAll, withHold } from "./held-charges.ts";
import { HOLD, settlementOf } from "./hold-acts.ts";
import { holdCharge, leaseOf } from "./hold-charge.ts";
import {
  checkHoldId,
  type HoldDecision,
  type HoldOptions,
  MAX_HOLD_MS,
  parseHoldOptions,
  type Settlement,
} from "./hold-options.ts";

/**
 * Reserves `amount` (default 1) if it fits, until it is settled or ends. A held amount can't be spent and doesn't refill. It
 * is charged when it is settled, with the actual cost, or in full when the hold ends.
 */
export function hold(limiter: RateLimiter, key: string, amount = 1, options: HoldOptions = {}): Promise<HoldDecision> {
  try {
    return Promise.resolve(holdNow(limiter, key, amount, options));
  } catch (error) {
    return Promise.reject(error);
  }
}

/** `hold` without a promise, for limiters on a synchronous store. */
export function holdSync(limiter: SyncRateLimiter, key: string, amount = 1, options: HoldOptions = {}): HoldDecision {
  if (partsToHold(limiter).some(({ engine }) => !engine.syncStore)) {
    const message = "holdSync() needs a limiter on a synchronous store, such as memoryStore(). Use hold().";
    throw new SluiceError("unsupported", message, { option: "holdSync", expected: "hold()" });
  }
  // Synchronous, because the stores are.
  return holdNow(limiter, key, amount, options) as HoldDecision;
}

/** Settles a hold by its id, for example from another process. */
export async function settle(limiter: RateLimiter, key: string, id: string, actual: number): Promise<Settlement> {
  const parts = partsToHold(limiter);
  checkKey(key);
  checkHoldId(id);
  checkActual(actual);
  // The end of the hold is not known here.
  const endsAt = monotonicMs() + MAX_HOLD_MS;
  const settlements = parts
    .filter(({ policy }) => policy.kind !== "penalty")
    .map((part) => ({ charge: settlementOf(chargeTo(part, key, 0, "settle"), id, actual), endsAt }));
  if (settlements.length === 0) {
    const message = "A penalty has no holds to settle. Use unblock() to end a block.";
    throw new SluiceError("unsupported", message, { option: "settle", expected: "a limiter with a rate" });
  }
  return settleAll(settlements);
}

/** The parts of a limiter that supports holds. */
function partsToHold(limiter: RateLimiter): readonly Part[] {
  (limiter as { rejectHolds?(): never } | undefined)?.rejectHolds?.();
  return partsOf(limiter);
}

/** `hold` without a promise if every store is synchronous. Throws what `hold` rejects with. */
export function holdNow(
  limiter: RateLimiter,
  key: string,
  amount: number,
  options: HoldOptions,
  act: Act = HOLD,
): MaybePromise<HoldDecision> {
  const parts = partsToHold(limiter);
  checkKey(key);
  checkAmount(amount);
  const hold = parseHoldOptions(options, leaseOf(parts));
  const isAlone = parts.length === 1;
  const charges = parts.map((part) =>
    // A combination counts its holds: weights of a concurrency limit are for holdAll.
    holdCharge(part, key, isAlone || part.policy.kind !== "concurrency" ? amount : 1, hold, options.id === undefined),
  );
  if (charges.every(({ mode }) => mode !== "hold")) {
    const message =
      "A penalty alone has nothing to hold. Combine it with a limiter that has a rate or a concurrency limit.";
    throw new SluiceError("unsupported", message, { option: "hold", expected: "a limiter with a rate" });
  }
  const sentAt = monotonicMs();
  const request = { ...hold, charges };
  return andThen((limiter as ComposableLimiter).decide(charges, act), (decision) =>
    withHold(decision, request, sentAt),
  );
}
