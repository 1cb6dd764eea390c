/** Two limiters in a row: a cheap one that rejects floods, and an exact one that decides on the rest. */

import { type ErrorCode, optionError, rejectDisposed, SluiceError } from "../base/errors.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import { type Act, TAKE } from "../core/apply.ts";
import { checkCost, checkKey } from "../core/charge.ts";
import type { Decision, Denied, Inspection } from "../core/decision.ts";
import { consumeAs } from "../core/part-charges.ts";
import type { ResolvedPolicy } from "../core/policy.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";

/**
 * Combines a cheap limiter with an exact one, such as a Workers binding with Durable Objects. Calls that `first` denies
 * are denied; the others are decided by `exact`. It never admits more than `exact` does. If `first` is unavailable,
 * `exact` decides alone.
 */
export function hybridRateLimiter(first: RateLimiter, exact: RateLimiter): RateLimiter {
  for (const [option, limiter] of Object.entries({ first, exact })) {
    if (typeof limiter === "object" && limiter !== null && typeof limiter.consume === "function") continue;
    throw optionError("invalid-limiter", option, "a limiter", limiter);
  }
  if (exact.consistency !== "exact") {
    throw optionError("invalid-limiter", "exact", "a limiter whose consistency is exact", exact.consistency);
  }
  return new Hybrid(first, exact);
}

class Hybrid implements RateLimiter {
  // Admits no more than the exact limiter, and may deny what that would admit.
  readonly consistency = "approximate";
  private readonly first: RateLimiter;
  private readonly exact: RateLimiter;
  private readonly policies: readonly ResolvedPolicy[];
  /** The decisions of `first`, by the decision that was returned. */
  private readonly firstDecisions: WeakMap<Decision, Decision> = new WeakMap();
  private disposed = false;

  constructor(first: RateLimiter, exact: RateLimiter) {
    this.first = first;
    this.exact = exact;
    this.policies = Object.freeze(
      [first, exact].flatMap((limiter) => limiter.getPolicies?.() ?? [limiter.getPolicy()]),
    );
  }

  consume(key: string, cost = 1): Promise<Decision> {
    return this.consumeAs(key, cost, TAKE);
  }

  /** `consume` as a part of a request. Not a part of the public contract. */
  async consumeAs(key: string, cost: number, act: Act): Promise<Decision> {
    this.check(key, cost);
    const decided = await this.onFirst(async (first) => consumeOn(first, key, cost, act));
    if (decided && !decided.allowed) return decided;
    const refundFirst = () =>
      this.onFirst((first) => (decided && cost > 0 ? first.refund(key, cost, decided) : Promise.resolve()));
    try {
      const decision = await consumeOn(this.exact, key, cost, act);
      if (!decision.allowed) await refundFirst();
      else if (decided) this.firstDecisions.set(decision, decided);
      return decision;
    } catch (error) {
      await refundFirst();
      throw error;
    }
  }

  async peek(key: string, cost = 1): Promise<Decision> {
    this.check(key, cost);
    const decided = await this.onFirst((first) => first.peek(key, cost));
    return decided && !decided.allowed ? decided : this.exact.peek(key, cost);
  }

  async refund(key: string, cost: number, decision?: Decision): Promise<void> {
    this.check(key, cost);
    const decided = decision && this.firstDecisions.get(decision);
    await Promise.all([
      // A decision that `first` had no part in took nothing from it.
      decision && !decided ? undefined : this.onFirst((first) => first.refund(key, cost, decided)),
      this.exact.refund(key, cost, decision),
    ]);
  }

  /** Called by `hold` and `settle`: the first limiter is approximate, so it can't promise what it holds. */
  rejectHolds(): never {
    const message = "A hybridRateLimiter does not support holds. Use the exact limiter alone.";
    throw new SluiceError("unsupported", message, { option: "hold", expected: "an exact limiter" });
  }

  async reset(key: string): Promise<void> {
    this.check(key, 0);
    await Promise.all([this.onFirst((first) => first.reset(key)), this.exact.reset(key)]);
  }

  async inspect(key: string): Promise<Inspection> {
    this.check(key, 0);
    return this.exact.inspect(key);
  }

  getPolicy(): ResolvedPolicy {
    return this.exact.getPolicy();
  }

  getPolicies(): readonly ResolvedPolicy[] {
    return this.policies;
  }

  /** The same limiter with other limiters in place of its own: an observer wraps both. */
  withLimiters(replace: (limiter: RateLimiter) => RateLimiter): RateLimiter {
    const [first, exact] = [this.first, this.exact].map((limiter) => ({ value: replace(limiter) }));
    return Object.create(this, { first, exact } as PropertyDescriptorMap) as RateLimiter;
  }

  /** Disposes of neither limiter: both belong to the caller. */
  async dispose(): Promise<void> {
    this.disposed = true;
  }

  private check(key: string, cost: number): void {
    if (this.disposed) rejectDisposed("limiter");
    checkKey(key);
    checkCost(cost);
  }

  /**
   * Calls `first`, if it supports the call: a binding only supports `consume` with cost 1. Ignores what it decides without
   * its store.
   */
  private async onFirst<T>(action: (first: RateLimiter) => Promise<T>): Promise<T | undefined> {
    try {
      const result = await action(this.first);
      const { degraded, unavailable } = (result ?? {}) as Partial<Denied>;
      return degraded || unavailable ? undefined : result;
    } catch (error) {
      if (error instanceof SluiceError && IGNORED_CODES.includes(error.code)) return undefined;
      throw error;
    }
  }
}

/** Not `consumeSync`: an application may have replaced `consume`. */
function consumeOn(limiter: RateLimiter, key: string, cost: number, act: Act): MaybePromise<Decision> {
  return act.reporter ? consumeAs(limiter, key, cost, act) : limiter.consume(key, cost);
}

/** Errors of `first` that leave the decision to `exact`. */
const IGNORED_CODES: readonly ErrorCode[] = ["unsupported", "invalid-cost", "store-unavailable"];
