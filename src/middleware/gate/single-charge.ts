/** Finds the charge of a request for the options `policy`, `policies` and `limiter`: one limiter, one key, one cost. */
import { SluiceError } from "../../base/errors.ts";
import { andThen, isPromise, type MaybePromise } from "../../base/maybe-promise.ts";
import type { WarningCode } from "../../base/warnings.ts";
import type { HoldOptions } from "../../holds/hold-options.ts";
import { hasConcurrency } from "../../joint/charges.ts";
import { bucketWatch } from "./bucket-watch.ts";
import { refundedHold } from "./holds.ts";
import type { Keys } from "./keys.ts";
import { limiterWatch, type WatchLimiter } from "./limiter-watch.ts";
import { checkLimiter } from "./limiters.ts";
import type { LimiterLike, RateLimitOptions } from "./options.ts";
import type { Reports } from "./reports.ts";
import { type ChargesFor, SingleCharge } from "./request-charges.ts";
import type { HandlerArgs } from "./request-reader.ts";

/** `limiter` is that of the options. Nothing is awaited unless a callback returns a promise. */
export function singleCharge<Args extends HandlerArgs>(
  options: RateLimitOptions<Args, unknown>,
  keys: Keys<Args>,
  reports: Reports<Args>,
  limiter: NonNullable<RateLimitOptions<Args, unknown>["limiter"]>,
): ChargesFor<Args> {
  const { refundIf, hold } = options;
  const cost = hold?.estimate ?? options.cost ?? 1;
  const holdOptions: HoldOptions = hold?.forMs === undefined ? {} : { forMs: hold.forMs };
  const heldBy = (limiter: LimiterLike): HoldOptions | undefined =>
    hold || hasConcurrency(limiter) ? holdOptions : undefined;
  const alwaysHeld = typeof limiter === "object" ? heldBy(limiter) : undefined;

  const withKey = (args: Args, chosen: LimiterLike, key: string, watch?: WatchLimiter<Args>) => {
    watch?.(chosen, key, args);
    const held = chosen === limiter ? alwaysHeld : heldBy(chosen);
    if (typeof cost === "number") return new SingleCharge(chosen, key, cost, held);
    return andThen(cost(...args), (cost) => new SingleCharge(chosen, key, cost, held));
  };
  const withLimiter = (args: Args, limiter: LimiterLike, watch?: WatchLimiter<Args>): MaybePromise<SingleCharge> => {
    const key = keys.client(args);
    return isPromise(key) ? key.then((key) => withKey(args, limiter, key, watch)) : withKey(args, limiter, key, watch);
  };
  const checkRefund = (limiter: LimiterLike): void => {
    if (refundIf === undefined) return;
    if (hasConcurrency(limiter)) throw refundedHold();
    if (typeof limiter.refund === "function") return;
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
