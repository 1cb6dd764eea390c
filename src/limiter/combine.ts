/** Several limits on one request, all or none. */
import { checkCost, checkKey } from "../core/charge.ts";
import type { Decision, Inspection } from "../core/decision.ts";
import { SluiceError } from "../core/errors.ts";
import type { RateLimiter, SyncRateLimiter } from "../core/rate-limiter.ts";
import { isSync } from "../core/store.ts";
import { bind, bindingsOf } from "./binding.ts";
import { chargeJointly, chargeJointlySync, checkCount, type Spend } from "./joint-charge.ts";

/** One limiter that asks several, with the same key and cost: a burst and a daily quota. */
export function combine(limiters: readonly SyncRateLimiter[]): SyncRateLimiter;
export function combine(limiters: readonly RateLimiter[]): RateLimiter;
export function combine(limiters: readonly RateLimiter[]): RateLimiter {
  if (!Array.isArray(limiters)) {
    throw new SluiceError({ code: "invalid-option", option: "limiters", received: limiters, expected: "a list of limiters" });
  }
  const bindings = limiters.flatMap(bindingsOf);
  checkCount("limiters", bindings.length);
  const policies = Object.freeze(bindings.map(({ terms }) => terms.policy));
  const smallest = policies.reduce((least, policy) => (policy.capacity < least.capacity ? policy : least));
  let disposed = false;

  function check(key: string, cost: number): void {
    if (disposed) throw new SluiceError({ code: "disposed", option: "limiter", expected: "a limiter in use" });
    // A part that was disposed of takes the whole with it.
    for (const limiter of limiters) bindingsOf(limiter);
    checkKey(key);
    checkCost(cost);
  }

  function spends(key: string, cost: number): Spend[] {
    check(key, cost);
    return bindings.map(({ store, terms }) => ({ store, terms, key, cost }));
  }

  const combined: RateLimiter = {
    consistency: bindings.every(({ store }) => store.consistency === "exact") ? "exact" : "approximate",
    consume: async (key, cost = 1) => chargeJointly(spends(key, cost), "take"),
    peek: async (key, cost = 1) => chargeJointly(spends(key, cost), "peek"),
    async refund(key, cost) {
      await chargeJointly(spends(key, cost), "refund");
    },
    async reset(key) {
      check(key, 0);
      await Promise.all(bindings.map(({ store, terms }) => store.reset(terms, key)));
    },
    async inspect(key) {
      check(key, 0);
      const parts = await Promise.all(bindings.map(({ store, terms }) => store.inspect(terms, key)));
      const tightest = parts.reduce((least, part) => (part.remaining < least.remaining ? part : least));
      return { ...tightest, parts } satisfies Inspection;
    },
    getPolicy: () => smallest,
    getPolicies: () => policies,
    async dispose() {
      disposed = true;
    },
  };
  if (bindings.every(({ store }) => isSync(store))) {
    combined.consumeSync = (key, cost = 1) => chargeJointlySync(spends(key, cost), "take");
  }
  return bind(combined, () => {
    check("limiter", 0);
    return bindings;
  });
}

/** One key and cost for one limiter. */
export interface LimiterCharge {
  /** The limiter to ask. */
  limiter: RateLimiter;
  /** The key it is asked about. */
  key: string;
  /** What the key would spend. Default: 1. */
  cost?: number;
}

/** Takes from several limiters with keys of their own, all or none: a user and an address. */
export async function consumeAll(charges: readonly LimiterCharge[]): Promise<Decision> {
  const spends = charges.flatMap(({ limiter, key, cost = 1 }) => {
    checkKey(key);
    checkCost(cost);
    return bindingsOf(limiter).map(({ store, terms }): Spend => ({ store, terms, key, cost }));
  });
  checkCount("charges", spends.length);
  return chargeJointly(spends, "take");
}
