/** What a suite is pointed at: a limiter, and how to move its time. */
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
export const ALGORITHMS: readonly AlgorithmName[] = [
  "token-bucket",
  "leaky-bucket",
  "fixed-window",
  "sliding-window",
  "sliding-log",
];

/** A bare limiter is a subject without time. */
export function subjectOf(made: RateLimiter | Subject): Subject {
  return "limiter" in made ? made : { limiter: made };
}

/** A policy that holds `limit` and is full again `spanMs` after it was emptied (two windows for sliding-window). */
export function policyOf(algorithm: AlgorithmName, limit: number, spanMs: number, name?: string): Policy {
  const label = name === undefined ? {} : { name };
  if (algorithm === "token-bucket") return { capacity: limit, tokensPerSecond: `${limit}/${spanMs}ms`, ...label };
  if (algorithm === "leaky-bucket")
    return { algorithm, capacity: limit, leaksPerSecond: `${limit}/${spanMs}ms`, ...label };
  return { algorithm, limit, windowMs: spanMs, ...label };
}
