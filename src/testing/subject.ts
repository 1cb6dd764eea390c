/** The limiter under test, how to advance its time, and the policies that the suites use. */

import type { AlgorithmName, Policy } from "../core/policy.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import { algorithms } from "../holds/all-algorithms.ts";
import { rates } from "../policy/rates.ts";

/** A limiter under test. */
export interface Subject {
  /** A limiter with no stored state. */
  readonly limiter: RateLimiter;
  /**
   * Advances time by `ms`. Moves a fake clock (back if negative), or waits if the store has its own clock; then pass
   * `time: "real"`.
   */
  advance?(ms: number): void | Promise<void>;
  /** Drops process state and connections, and returns a new limiter on the same store. */
  restart?(): RateLimiter | Promise<RateLimiter>;
  /** Maximum number of keys in the store, if bounded. Enables a test that floods it with new keys. */
  readonly maxKeys?: number;
}

/** Creates a limiter with no stored state for a policy. */
export type CreateSubject = (policy: Policy) => RateLimiter | Subject | Promise<RateLimiter | Subject>;

/** How a suite advances time: with a fake clock, by waiting, or not at all. */
export type Time = "fake" | "real" | "none";

/** An algorithm with a rate. Concurrency limits and penalties have laws of their own. */
export type RateAlgorithm = Exclude<AlgorithmName, "concurrency" | "penalty">;

/** Every algorithm with a rate, in the order of the docs. */
export const ALGORITHMS: readonly RateAlgorithm[] = Object.values(algorithms)
  .filter(({ holdsOnly, block }) => !holdsOnly && !block)
  .map(({ name }) => name as RateAlgorithm);

/** Wraps a plain limiter. */
export function toSubject(created: RateLimiter | Subject): Subject {
  return "limiter" in created ? created : { limiter: created };
}

/** A policy with this limit that is fully restored `spanMs` after it was used up (twice that for sliding-window). */
export function policyOf(algorithm: AlgorithmName, limit: number, spanMs: number, name?: string): Policy {
  const named = name === undefined ? {} : { name };
  const rateOption = algorithms[algorithm].form.options.find((option) => option.endsWith("PerSecond"));
  // Code names only rates; a policy brings any other algorithm.
  const own = Object.hasOwn(rates, algorithm) ? algorithm : algorithms[algorithm];
  if (!rateOption) return { algorithm: own, limit, windowMs: spanMs, ...named } as Policy;
  return { algorithm: own, capacity: limit, [rateOption]: `${limit}/${spanMs}ms`, ...named } as unknown as Policy;
}

/** The largest limit to test. List state grows with the limit. */
export function maxLimitOf(algorithm: AlgorithmName): number {
  return algorithms[algorithm].list ? 10_000 : 2 ** 31 - 1;
}
