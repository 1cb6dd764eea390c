/** Finds the charges of a request for the option `limits`: several limiters with keys and costs of their own. */

import { optionError, SluiceError } from "../../base/errors.ts";
import { andThen, isPromise, type MaybePromise } from "../../base/maybe-promise.ts";
import { checkOptions } from "../../base/options.ts";
import type { WarningCode } from "../../base/warnings.ts";
import { checkCost, checkKey, MAX_CHARGES } from "../../core/charge.ts";
import { observerPort } from "../../core/observer.ts";
import type { ComposableLimiter } from "../../core/part-charges.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import type { HoldOptions } from "../../holds/hold-options.ts";
import { hasConcurrency } from "../../joint/charges.ts";
import { bucketWatch } from "./bucket-watch.ts";
import { refundedHold } from "./holds.ts";
import { type Keys, watchedKey } from "./keys.ts";
import { limiterWatch } from "./limiter-watch.ts";
import { notALimiter, observed } from "./limiters.ts";
import type { LimiterLike, RateLimitOptions, RequestLimit } from "./options.ts";
import type { Reports } from "./reports.ts";
import { type ChargesFor, JointCharges, PolicyLists, policyCount, type RequestCharge } from "./request-charges.ts";
import type { HandlerArgs } from "./request-reader.ts";

/** Throws for limits that can't work. */
export function checkLimits<Args extends HandlerArgs>(limits: readonly RequestLimit<Args>[]): void {
  if (!Array.isArray(limits) || limits.length === 0) {
    throw optionError("invalid-option", "limits", "a list of limits, such as [{ limiter, key }]", limits);
  }
  let count = 0;
  for (const [i, limit] of limits.entries()) {
    const option = `limits[${i}]`;
    if (typeof (limit as Partial<LimiterLike> | null | undefined)?.consume === "function") {
      const message = `${option} must be an object such as { limiter, key }, but received a limiter. Write { limiter } around it.`;
      throw new SluiceError("invalid-option", message, { option, expected: "{ limiter, key, cost }", received: limit });
    }
    checkOptions(option, limit, ["limiter", "key", "cost"]);
    const { limiter, key, cost } = limit;
    if (typeof limiter !== "function") count += policyCount(checkComposable(`${option}.limiter`, limiter));
    if (key !== undefined && typeof key !== "function") {
      throw optionError("invalid-option", `${option}.key`, "a function", key);
    }
    if (cost !== undefined && typeof cost !== "function") checkCost(cost);
  }
  if (count > MAX_CHARGES) {
    throw optionError("too-many-charges", "limits", `a list of at most ${MAX_CHARGES} policies`, count);
  }
}

/** Only limiters of sluice can be charged together. */
function checkComposable(option: string, limiter: RateLimiter): RateLimiter {
  if (typeof (limiter as Partial<ComposableLimiter> | null | undefined)?.parts === "function") return limiter;
  if (typeof (limiter as Partial<RateLimiter> | null | undefined)?.consume !== "function") {
    throw notALimiter(option, limiter);
  }
  const expected = "a limiter of createLimiter, combine or a function that ends in RateLimiter";
  const message = `${option} must be ${expected}, because other limiters (and hybridRateLimiter) can't be charged all or nothing.`;
  throw new SluiceError("invalid-limiter", message, { option, expected, received: limiter });
}

/** `limits` must have been validated. Nothing is awaited unless a callback returns a promise. */
export function jointCharges<Args extends HandlerArgs>(
  options: RateLimitOptions<Args, unknown>,
  keys: Keys<Args>,
  reports: Reports<Args>,
): ChargesFor<Args> {
  const warn = (message: string, args: Args, code: WarningCode): void => reports.warn(message, args, code);
  const watch = limiterWatch(warn);
  const checkRefund = (limiter: RateLimiter): void => {
    if (options.refundIf !== undefined && hasConcurrency(limiter)) throw refundedHold();
  };
  for (const { limiter } of options.limits as readonly RequestLimit<Args>[]) {
    if (typeof limiter !== "function") checkRefund(limiter);
  }
  const observer = observerPort(options.observer);
  const limits = (options.limits as readonly RequestLimit<Args>[]).map(({ limiter, key, cost }) => ({
    limiter: typeof limiter === "function" ? limiter : observed(observer, limiter),
    key: key && watchedKey(key, options, reports),
    cost: cost ?? options.hold?.estimate ?? options.cost ?? 1,
    // With `hold`, a limit with a cost of its own is taken.
    isHeld: options.hold !== undefined && cost === undefined,
    watchBucket: typeof limiter === "function" ? undefined : bucketWatch(limiter, warn),
  }));
  type Limit = (typeof limits)[number];

  const chargeOf = (
    { key: ownKey, cost: ownCost, limiter: source, watchBucket, isHeld }: Limit,
    args: Args,
    limiter: RateLimiter,
    clientKey: () => MaybePromise<string>,
  ): MaybePromise<RequestCharge> =>
    andThen(ownKey ? ownKey(args) : clientKey(), (key) => {
      checkKey(key);
      if (typeof source === "function") watch(limiter, key, args);
      watchBucket?.(key, args);
      return andThen(typeof ownCost === "number" ? ownCost : ownCost(...args), (cost) => {
        checkCost(cost);
        return { limiter, key, cost, isHeld: cost > 0 && (isHeld || hasConcurrency(limiter)) };
      });
    });

  const chargeFor = (
    limit: Limit,
    index: number,
    args: Args,
    clientKey: () => MaybePromise<string>,
  ): MaybePromise<RequestCharge | undefined> => {
    const { limiter } = limit;
    if (typeof limiter !== "function") return chargeOf(limit, args, limiter, clientKey);
    return andThen(limiter(...args), (chosen): MaybePromise<RequestCharge | undefined> => {
      if (chosen === undefined) return undefined;
      checkRefund(checkComposable(`limits[${index}].limiter`, chosen));
      return chargeOf(limit, args, observed(observer, chosen), clientKey);
    });
  };

  const forMs = options.hold?.forMs;
  const hold: HoldOptions = forMs === undefined ? {} : { forMs };
  const policyLists = new PolicyLists();
  return (args) => {
    let client: MaybePromise<string> | undefined;
    // Verifying a token is expensive: the client is identified at most once per request.
    const clientKey = (): MaybePromise<string> => {
      client ??= keys.client(args);
      return client;
    };
    const charges: RequestCharge[] = [];
    // One after the other, so an error leaves no rejected promise behind that is not awaited.
    const collect = (from: number): MaybePromise<JointCharges | undefined> => {
      for (let i = from; i < limits.length; i++) {
        const charge = chargeFor(limits[i] as Limit, i, args, clientKey);
        if (isPromise(charge)) {
          return charge.then((charge) => {
            if (charge) charges.push(charge);
            return collect(i + 1);
          });
        }
        if (charge) charges.push(charge);
      }
      return charges.length === 0 ? undefined : new JointCharges(charges, policyLists.of(charges), hold);
    };
    return collect(0);
  };
}
