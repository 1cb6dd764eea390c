/** Policies as users write them, and the frozen form that limiters return. */

import type { OptionHints } from "../base/options.ts";
import type { Duration, RateText } from "../base/rate.ts";

/** The algorithms. */
export type AlgorithmName =
  | "token-bucket"
  | "leaky-bucket"
  | "fixed-window"
  | "sliding-window"
  | "sliding-log"
  | "concurrency"
  | "penalty";

interface Common {
  /** The policy's name in headers, logs and stored keys. Default: its text, such as `5/s burst 10`. */
  name?: string;
  /** What the cost counts, such as `tokens`: for header fields and the response to a denied request. Default: `requests`. */
  unit?: string;
  /** Separates this policy's keys from those of the same policy elsewhere on one store. Default: none. */
  prefix?: string;
  /** Lets several policies with one name share their buckets, as plans of one product do. Default: false. */
  share?: boolean;
}

interface NoWindow {
  limit?: never;
  windowMs?: never;
}

interface NoHolds {
  leaseMs?: never;
  strikes?: never;
  blockMs?: never;
  factor?: never;
  maxBlockMs?: never;
  forgetMs?: never;
}

interface NoBucket {
  capacity?: never;
  tokensPerSecond?: never;
  leaksPerSecond?: never;
}

/** Bursts up to `capacity`, then a steady rate. The default, and a good choice for most APIs. */
export interface TokenBucketPolicy extends Common, NoWindow, NoHolds {
  /** Names the algorithm. Optional, because it is the default. */
  algorithm?: "token-bucket";
  /** The largest burst: a whole number >= 1. */
  capacity: number;
  /** The refill rate: a number > 0, or text such as `"3/h"`. */
  tokensPerSecond: number | RateText;
  /** Maximum number of holds of one key: 1 to 1000. Calls on a key take longer the more it has. Default: 200. */
  maxHolds?: number;
  leaksPerSecond?: never;
}

/** A queue: requests are allowed with a `delayMs`, which spaces them at a steady rate. */
export interface LeakyBucketPolicy extends Common, NoWindow, NoHolds {
  /** Names the algorithm. */
  algorithm: "leaky-bucket";
  /** The length of the queue: a whole number >= 1. */
  capacity: number;
  /** The rate at which the queue drains: a number > 0, or text such as `"3/h"`. */
  leaksPerSecond: number | RateText;
  tokensPerSecond?: never;
  maxHolds?: never;
}

interface WindowPolicy extends Common, NoBucket, NoHolds {
  /** The limit per window: a whole number >= 1. */
  limit: number;
  /** The length of the window: whole milliseconds >= 1, or text such as `"1h"`. */
  windowMs: Duration;
  /** Maximum number of holds of one key: 1 to 1000. Calls on a key take longer the more it has. Default: 200. */
  maxHolds?: number;
}

/** A counter that starts at 0 at every multiple of the window, for hourly or daily quotas. */
export interface FixedWindowPolicy extends WindowPolicy {
  /** Names the algorithm. */
  algorithm: "fixed-window";
}

/** Two counters, which smooth the boundary between windows. */
export interface SlidingWindowPolicy extends WindowPolicy {
  /** Names the algorithm. */
  algorithm: "sliding-window";
}

/** Keeps every grant: never more than `limit` in any window. `limit` is at most 10 000. */
export interface SlidingLogPolicy extends WindowPolicy {
  /** Names the algorithm. */
  algorithm: "sliding-log";
}

/** At most `limit` holds at once, such as requests in flight. */
export interface ConcurrencyPolicy extends Common, NoBucket, Omit<NoHolds, "leaseMs"> {
  /** The algorithm, which `concurrency()` adds. */
  algorithm: { readonly name: "concurrency" };
  /** The largest sum of all holds: a whole number >= 1. */
  limit: number;
  /** How long a hold lasts unless it is renewed: 1 ms to 1 d, or text such as `"30s"`. Default: 60 000. */
  leaseMs?: Duration;
  /** Maximum number of holds of one key: 1 to 1000. Default: the limit, but from 200 to 1000. */
  maxHolds?: number;
  windowMs?: never;
}

/** Blocks a key that keeps exceeding the limits it is combined with, for longer each time. */
export interface PenaltyPolicy extends Common, NoBucket, NoWindow {
  /** The algorithm, which `penalty()` adds. */
  algorithm: { readonly name: "penalty" };
  /** The strike that first blocks the key: 1 to 1000. Default: 1. */
  strikes?: number;
  /** Duration of the first block in ms, or text such as `"1m"`. */
  blockMs: Duration;
  /** How many times longer each further block is: a whole number from 1 to 1000. Default: 2. */
  factor?: number;
  /** Maximum duration of a block. Default: 1 h, or `blockMs` if that is longer. */
  maxBlockMs?: Duration;
  /** One strike is forgotten per this time outside blocks. Default: `maxBlockMs`. */
  forgetMs?: Duration;
  leaseMs?: never;
  maxHolds?: never;
}

/** A limit: how much may be spent, and how fast it is available again. */
export type Policy =
  | TokenBucketPolicy
  | LeakyBucketPolicy
  | FixedWindowPolicy
  | SlidingWindowPolicy
  | SlidingLogPolicy
  | ConcurrencyPolicy
  | PenaltyPolicy;

const AS_TEXT = 'For 10 points every 60 s, write "10/60s fixed".';

/** What to write instead of the options of rate-limiter-flexible and express-rate-limit. */
export const POLICY_HINTS: OptionHints = { points: AS_TEXT, duration: AS_TEXT, max: AS_TEXT };

/** A policy in one form for all algorithms. */
export interface ResolvedPolicy {
  /** The algorithm. */
  readonly algorithm: AlgorithmName;
  /** The given name, or the policy's text: as it was written, else in its canonical form. */
  readonly name: string;
  /** The given prefix. */
  readonly prefix?: string;
  /** The largest cost that fits at once. */
  readonly capacity: number;
  /** The sustained rate; 0 for a concurrency limit and a penalty, which have none. */
  readonly tokensPerSecond: number;
  /** The same as `capacity`. */
  readonly limit: number;
  /** The window in ms, or the time to fill an empty bucket; of a concurrency limit the lease, of a penalty `forgetMs`. */
  readonly windowMs: number;
  /** What the cost counts, such as `tokens`, if it is not that of the header options. */
  readonly unit?: string;
}
