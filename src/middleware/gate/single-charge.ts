/** Finds the charge of a request for the options `policy`, `policies` and `limiter`: one limiter, one key, one cost. */
import { SluiceError } from "../../core/errors.ts";
import { andThen, isPromise, type MaybePromise } from "../../core/maybe-promise.ts";
import type { WarningCode } from "../../core/warnings.ts";
import { bucketWatch } from "./bucket-watch.ts";
import type { Keys } from "./keys.ts";
import { limiterWatch, type WatchLimiter } from "./limiter-watch.ts";
import { checkLimiter, limiterFrom } from "./limiters.ts";
import type { LimiterLike, RateLimitOptions } from "./options.ts";
import type { Reports } from "./reports.ts";
import { type ChargesFor, SingleCharge } from "./request-charges.ts";
import type { HandlerArgs } from "./request-reader.ts";

/** Creates the limiter from the options. Nothing is awaited unless a callback returns a promise. */
export function singleCharge<Args extends HandlerArgs>(
  options: RateLimitOptions<Args, unknown>,
  keys: Keys<Args>,
  reports: Reports<Args>,
): ChargesFor<Args> {
  const { cost = 1, refundIf } = options;
  const limiter = limiterFrom(options);

  const withKey = (args: Args, limiter: LimiterLike, key: string, watch?: WatchLimiter<Args>) => {
    watch?.(limiter, key, args);
    if (typeof cost === "number") return new SingleCharge(limiter, key, cost);
    return andThen(cost(...args), (cost) => new SingleCharge(limiter, key, cost));
  };
  const withLimiter = (args: Args, limiter: LimiterLike, watch?: WatchLimiter<Args>): MaybePromise<SingleCharge> => {
    const key = keys.client(args);
    return isPromise(key) ? key.then((key) => withKey(args, limiter, key, watch)) : withKey(args, limiter, key, watch);
  };
  const checkRefund = (limiter: LimiterLike): void => {
    if (refundIf === undefined || typeof limiter.refund === "function") return;
    const message = "refundIf requires a limiter with refund(key, cost), which this limiter does not have.";
    throw new SluiceError("invalid-limiter", message, { option: "refundIf", expected: "refund(key, cost)" });
  };

  const warn = (message: string, args: Args, code: WarningCode): void => reports.warn(message, args, code);
  if (typeof limiter === "object") {
    checkRefund(limiter);
    // The limiter of `policy` has a store of its own.
    const watchBucket = options.limiter && bucketWatch(limiter, warn);
    const watch: WatchLimiter<Args> | undefined = watchBucket && ((_limiter, key, args) => watchBucket(key, args));
    return (args) => withLimiter(args, limiter, watch);
  }
  const watch = limiterWatch(warn);
  return (args) =>
    andThen(limiter(...args), (chosen) => {
      checkRefund(checkLimiter(chosen));
      return withLimiter(args, chosen, watch);
    });
}
