/** What a user may write as a policy, and the one frozen shape that it is resolved to. */
import type { Duration, RateText } from "./rate.ts";

/** The five ways to count. */
export type AlgorithmName = "token-bucket" | "leaky-bucket" | "fixed-window" | "sliding-window" | "sliding-log";

interface Common {
  /** How the policy is called in headers, logs and stored keys. Default: its own text, such as `5/s burst 10`. */
  name?: string;
  /** Keeps this policy's keys apart from the same policy elsewhere on one store. Default: none. */
  prefix?: string;
  /** Lets several policies of one name share their buckets: plans of one product. Default: false. */
  share?: boolean;
}

interface NoWindow {
  limit?: never;
  windowMs?: never;
}

interface NoBucket {
  capacity?: never;
  tokensPerSecond?: never;
  leaksPerSecond?: never;
}

/** Bursts up to `capacity`, then a steady rate. The default, and right for most APIs. */
export interface TokenBucketPolicy extends Common, NoWindow {
  algorithm?: "token-bucket";
  /** The most that can be spent at once: a whole number >= 1. */
  capacity: number;
  /** How fast the bucket fills: any number > 0, or text such as `"3/h"`. */
  tokensPerSecond: number | RateText;
  leaksPerSecond?: never;
}

/** A queue: requests are allowed with a `delayMs`, so that they leave at a steady rate. */
export interface LeakyBucketPolicy extends Common, NoWindow {
  algorithm: "leaky-bucket";
  /** How many may wait at once: a whole number >= 1. */
  capacity: number;
  /** How fast the queue drains: any number > 0, or text such as `"3/h"`. */
  leaksPerSecond: number | RateText;
  tokensPerSecond?: never;
}

interface WindowPolicy extends Common, NoBucket {
  /** The most in one window: a whole number >= 1. */
  limit: number;
  /** The length of the window: whole milliseconds >= 1, or text such as `"1h"`. */
  windowMs: Duration;
}

/** A counter that starts again at every multiple of the window: quotas of the hour or the day. */
export interface FixedWindowPolicy extends WindowPolicy {
  algorithm: "fixed-window";
}

/** Two counters that smooth the edge of the window. */
export interface SlidingWindowPolicy extends WindowPolicy {
  algorithm: "sliding-window";
}

/** Remembers every grant: never more than `limit` in any window. `limit` is at most 10 000. */
export interface SlidingLogPolicy extends WindowPolicy {
  algorithm: "sliding-log";
}

/** What may be spent, and how fast. */
export type Policy = TokenBucketPolicy | LeakyBucketPolicy | FixedWindowPolicy | SlidingWindowPolicy | SlidingLogPolicy;

/** One shape for all algorithms, whatever the policy was written as. */
export interface ResolvedPolicy {
  /** The algorithm that counts. */
  readonly algorithm: AlgorithmName;
  /** The given name, or the policy's own text. */
  readonly name: string;
  /** The given prefix. */
  readonly prefix?: string;
  /** The most that fits at once. */
  readonly capacity: number;
  /** The sustained rate. */
  readonly tokensPerSecond: number;
  /** The same as `capacity`. */
  readonly limit: number;
  /** The window, or the time that an empty bucket takes to fill. */
  readonly windowMs: number;
}
