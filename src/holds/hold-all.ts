/** Holds and takes on several limiters in one step. */

import { monotonicMs } from "../base/clock.ts";
import { optionError, SluiceError } from "../base/errors.ts";
import { andThen, type MaybePromise } from "../base/maybe-promise.ts";
import { checkOptions } from "../base/options.ts";
import type { Act, Part, PartCharge } from "../core/apply.ts";
import { checkCost, checkKey } from "../core/charge.ts";
import { partsOf, peekCharge, takeCharge } from "../core/part-charges.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { CheckedCharge } from "../joint/consume-all.ts";
import { checkTogether, decideJointly } from "../joint/jointly.ts";
import { checkAmount, withHold } from "./held-charges.ts";
import { HOLD } from "./hold-acts.ts";
import { holdCharge, leaseOf } from "./hold-charge.ts";
import { type HoldDecision, type HoldOptions, parseHoldOptions } from "./hold-options.ts";

/** A charge of `holdAll`: `amount` is held, `cost` is taken at once. */
export type HoldCharge =
  | {
      /** The limiter to charge. */
      limiter: RateLimiter;
      /** The key to charge. */
      key: string;
      /** The amount to hold. Default: 1. */
      amount?: number;
      cost?: never;
    }
  | {
      /** The limiter to charge. */
      limiter: RateLimiter;
      /** The key to charge. */
      key: string;
      /** The cost to take at once. */
      cost: number;
      amount?: never;
    };

/**
 * Holds or takes several charges with keys of their own, all or nothing: `amount` is held until it is settled, `cost` is
 * taken at once. Across stores, shards or cluster slots, holding an `id` that exists already is decided like a new hold.
 */
export async function holdAll(charges: readonly HoldCharge[], options: HoldOptions = {}): Promise<HoldDecision> {
  if (!Array.isArray(charges)) {
    throw optionError(
      "invalid-option",
      "charges",
      "a list of { limiter, key, amount } or { limiter, key, cost }",
      charges,
    );
  }
  const checked = charges.map((charge: HoldCharge) => {
    checkOptions("a charge of holdAll", charge, ["limiter", "key", "amount", "cost"]);
    checkKey(charge.key);
    if (charge.cost !== undefined && charge.amount !== undefined) {
      const message = "A charge of holdAll() has an amount to hold or a cost to take, not both.";
      throw new SluiceError("invalid-option", message, { option: "charges", expected: "amount or cost" });
    }
    if (charge.cost === undefined) checkAmount(charge.amount ?? 1);
    else checkCost(charge.cost);
    const { limiter, key, cost, amount = 1 } = charge;
    return { limiter, key, cost: cost ?? amount, isHeld: cost === undefined };
  });
  return holdCharges(checked, options);
}

/** A charge of `holdAll` whose key and cost are checked. */
export interface CheckedHoldCharge extends CheckedCharge {
  /** Whether the cost is held, and not taken. */
  readonly isHeld: boolean;
}

/** The same for charges that are checked, without a promise if every store is synchronous. */
export function holdCharges(
  charges: readonly CheckedHoldCharge[],
  options: HoldOptions,
  act: Act = HOLD,
): MaybePromise<HoldDecision> {
  const parts = charges.map(({ limiter }) => partsOf(limiter));
  const hold = parseHoldOptions(options, leaseOf(parts.flat()));
  const joint: PartCharge[] = [];
  const indexes: number[] = [];
  for (const [index, { key, cost, isHeld, isPeeked }] of charges.entries()) {
    for (const part of parts[index] as readonly Part[]) {
      const isNew = options.id === undefined;
      const takeOrPeek = isPeeked ? peekCharge : takeCharge;
      joint.push(isHeld ? holdCharge(part, key, cost, hold, isNew) : takeOrPeek(part, key, cost));
      indexes.push(index);
    }
  }
  checkTogether("charges", joint);
  if (!joint.some(({ mode }) => mode === "hold")) {
    throw optionError("invalid-option", "charges", "a list with at least one amount to hold", charges);
  }
  const sentAt = monotonicMs();
  const request = { ...hold, charges: joint, indexes };
  return andThen(decideJointly(joint, act), (decision) => withHold(decision, request, sentAt));
}
