/** Several limits with keys of their own in one decision, all or nothing. */

import { optionError, SluiceError } from "../base/errors.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import { checkOptions } from "../base/options.ts";
import { type Act, type PartCharge, TAKE } from "../core/apply.ts";
import { checkCost, checkKey } from "../core/charge.ts";
import type { Decision } from "../core/decision.ts";
import { partsOf, peekCharge, takeCharge } from "../core/part-charges.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import { checkTogether, decideJointly } from "./jointly.ts";

/** One key and cost for one limiter. */
export interface LimiterCharge {
  /** The limiter to charge. */
  limiter: RateLimiter;
  /** The key to charge. */
  key: string;
  /** The cost. Default: 1. */
  cost?: number;
}

/** Charges several limiters with keys of their own, all or nothing: a user and an IP address. */
export async function consumeAll(charges: readonly LimiterCharge[]): Promise<Decision> {
  if (!Array.isArray(charges)) {
    throw optionError("invalid-option", "charges", "a list of { limiter, key, cost? }", charges);
  }
  const checked = charges.map((charge: LimiterCharge) => {
    if (typeof (charge as Partial<RateLimiter> | undefined)?.consume === "function") {
      const message =
        "consumeAll() takes { limiter, key } for each limiter. For one key and several limiters, use combine(limiters).";
      throw new SluiceError("invalid-option", message, { option: "charges", expected: "a list of { limiter, key }" });
    }
    checkOptions("a charge", charge, ["limiter", "key", "cost"]);
    const { limiter, key, cost = 1 } = charge;
    checkKey(key);
    checkCost(cost);
    return { limiter, key, cost };
  });
  return consumeChecked(checked, TAKE);
}

/** One key and cost for one limiter. Key and cost have been checked. */
export interface CheckedCharge extends Readonly<Required<LimiterCharge>> {
  /** Whether nothing is taken: a penalty that only denies while its key is blocked. Default: false. */
  readonly isPeeked?: boolean;
}

/** The same for charges whose keys and costs are checked, without a promise if every store is synchronous. */
export function consumeChecked(charges: readonly CheckedCharge[], act: Act): MaybePromise<Decision> {
  const all = chargesOf(charges);
  checkTogether("charges", all);
  return decideJointly(all, act);
}

/** The charges to all parts of the limiters, in order. */
export function chargesOf(charges: readonly CheckedCharge[]): PartCharge[] {
  return charges.flatMap(({ limiter, key, cost, isPeeked }) => {
    const takeOrPeek = isPeeked ? peekCharge : takeCharge;
    return partsOf(limiter).map((part) => takeOrPeek(part, key, cost));
  });
}
