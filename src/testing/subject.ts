/** What a suite is pointed at: a limiter, and how to move its time. */
import { algorithms } from "../algorithms/algorithms.ts";
import type { AlgorithmName, Policy } from "../core/policy.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";

/** A limiter under test. */
export interface Subject {
  /** The limiter, with nothing spent. */
  readonly limiter: RateLimiter;
  /**
   * Lets time pass: moves a fake clock (also backwards, when negative) or, where the store owns its
   * clock, really waits (then pass `time: "real"`).
   */
  advance?(ms: number): void | Promise<void>;
  /** Loses the process and its connections and gives a limiter on the same store again. */
  restart?(): RateLimiter | Promise<RateLimiter>;
  /** The most keys that the store keeps, if it is bounded: then a spray of new keys is tried. */
  readonly maxKeys?: number;
}

/** Makes a fresh limiter for a policy. */
export type CreateSubject = (policy: Policy) => RateLimiter | Subject | Promise<RateLimiter | Subject>;

/** How a suite can let time pass: by moving a clock, by waiting, or not at all. */
export type Time = "fake" | "real" | "none";

/** Every algorithm, in the order of the documentation. */
export const ALGORITHMS: readonly AlgorithmName[] = Object.keys(algorithms) as AlgorithmName[];

/** A bare limiter is a subject without time. */
export function subjectOf(made: RateLimiter | Subject): Subject {
  return "limiter" in made ? made : { limiter: made };
}

/** A policy with this limit that is full again `spanMs` after it was used up (two windows for sliding-window). */
export function policyOf(algorithm: AlgorithmName, limit: number, spanMs: number, name?: string): Policy {
  const label = name === undefined ? {} : { name };
  const rateOption = algorithms[algorithm].form.options.find((option) => option.endsWith("PerSecond"));
  if (!rateOption) return { algorithm, limit, windowMs: spanMs, ...label } as Policy;
  return { algorithm, capacity: limit, [rateOption]: `${limit}/${spanMs}ms`, ...label } as unknown as Policy;
}

/** The largest limit to test: a list state grows with it. */
export function maxLimitOf(algorithm: AlgorithmName): number {
  return algorithms[algorithm].list ? 10_000 : 2 ** 31 - 1;
}
