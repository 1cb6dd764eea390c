/** Charges to the parts of limiters: which parts a limiter has, and how each kind of policy takes part in a call. */

import { optionError } from "../base/errors.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import type { Act, Part, PartCharge, PartGroup } from "./apply.ts";
import { checkCost, checkKey } from "./charge.ts";
import type { CompiledPolicy, Mode } from "./compiled-policy.ts";
import type { Decision } from "./decision.ts";
import type { RateLimiter } from "./rate-limiter.ts";

/** A limiter whose parts can be charged together with those of others. Not a part of the public contract. */
export interface ComposableLimiter extends RateLimiter {
  /** Its parts, in order. */
  parts(): readonly Part[];
  /** Decides charges to its parts. */
  decide(charges: PartGroup, act: Act): MaybePromise<Decision>;
}

/** Whether the parts of a limiter can be charged. Not so for a third-party limiter. */
export function isComposable(limiter: object | undefined): limiter is ComposableLimiter {
  return typeof (limiter as ComposableLimiter | undefined)?.parts === "function";
}

/** Whether the methods of a limiter are its own: an application may have replaced `consume`, and inherits the parts. */
export function isPlain(limiter: ComposableLimiter): boolean {
  const { consume, consumeSync } = limiter.constructor.prototype as Partial<RateLimiter>;
  return limiter.consume === consume && limiter.consumeSync === consumeSync;
}

/** The parts of a limiter; of a combination, all of them in order. */
export function partsOf(limiter: RateLimiter): readonly Part[] {
  if (isComposable(limiter)) return limiter.parts();
  const expected =
    "a limiter made by createLimiter, combine or a function whose name ends in RateLimiter, other than hybridRateLimiter";
  throw optionError("invalid-limiter", "limiter", expected, limiter);
}

/** A limiter that is not composable, and knows acts: it observes or asks other limiters. */
interface ActingLimiter {
  consumeAs(key: string, cost: number, act: Act): MaybePromise<Decision>;
}

/** `consume` as a part of a request, without a promise if the store is synchronous. A third-party limiter knows no acts. */
export function consumeAs(limiter: ConsumingLimiter, key: string, cost: number, act: Act): MaybePromise<Decision> {
  if (act.reporter) {
    const own = limiter as Partial<ActingLimiter>;
    if (own.consumeAs) return own.consumeAs(key, cost, act);
    if (isComposable(limiter) && isPlain(limiter)) {
      checkKey(key);
      checkCost(cost);
      return limiter.decide(
        limiter.parts().map((part) => takeCharge(part, key, cost)),
        act,
      );
    }
  }
  return limiter.consumeSync ? limiter.consumeSync(key, cost) : limiter.consume(key, cost);
}

/** The methods that every limiter has. */
interface ConsumingLimiter {
  consume(key: string, cost?: number): MaybePromise<Decision>;
  consumeSync?(key: string, cost?: number): Decision;
}

/** A charge to one part. */
export function chargeTo(part: Part, key: string, cost: number, mode: Mode): PartCharge {
  const { engine, policy, context, observed } = part;
  return { engine, policy, context, observed, key, cost, mode };
}

/** Whether a policy has a rate. Others limit what is held, or count strikes. */
export function hasRate({ kind }: CompiledPolicy): boolean {
  return kind === "rate";
}

/** The charge of `consume`: a rate takes, and others say what they do. */
export function takeCharge(part: Part, key: string, cost: number): PartCharge {
  const { algorithm } = part.policy;
  if (!algorithm.consume) return chargeTo(part, key, cost, "take");
  const own = algorithm.consume(part.policy, cost);
  return chargeTo(part, key, own.cost, own.mode);
}

/** The charge of `peek`. */
export function peekCharge(part: Part, key: string, cost: number): PartCharge {
  return chargeTo(part, key, hasRate(part.policy) ? cost : Math.min(cost, 1), "peek");
}
