/** The options of `abuse`. */
import type { MaybePromise } from "../base/maybe-promise.ts";
import type { Duration } from "../base/rate.ts";
import type { Store } from "../core/store.ts";
import type { Per } from "../http/identity/identities.ts";
import type { Challenge } from "./challenge/challenge-types.ts";
import type { List } from "./lists/list.ts";
import type { Signal } from "./signals.ts";

/** Options of `abuse`. Everything is off until it is configured. `Args` are the arguments of the middleware. */
export interface AbuseOptions<Args extends readonly unknown[] = readonly unknown[]> {
  /** Requests to reject with 403: lists, or functions that return `true`. Takes precedence over `allow`. Default: none. */
  deny?: readonly ListOrFunction<Args>[];
  /** Requests that are neither counted nor limited: lists, or functions that return `true`. Default: none. */
  allow?: readonly ListOrFunction<Args>[];
  /** Sources of the fact `bot` for rules; the first that returns a value is used. Default: none. */
  signals?: readonly Signal<Args>[];
  /**
   * Blocks keys that are denied repeatedly; `{}` uses the defaults. A list of at most two sets one penalty per identity. With
   * rules, denials by rules with `penalty: true` are strikes; without rules, every denial is. Default: none.
   */
  penalty?: PenaltyOptions | readonly PenaltyOptions[];
  /**
   * Paths that no legitimate client requests, such as `"/wp-login.php"` and `"/.git/*"`: 404, and the IP address is blocked.
   * Requests that web pages cause don't count, which browsers report reliably over HTTPS only. Default: none.
   */
  traps?: readonly string[];
  /** Handles limits of rules with `action: "challenge"`. Default: none. */
  challenge?: Challenge;
  /** Delays responses to blocked keys, of at most `max` requests at a time in this process. Default: none. */
  tarpit?: TarpitOptions;
  /** Where penalties are stored. Default: the store of the rules or limiter that it is used with. */
  store?: Store;
  /** Separates applications that share a store: 1 to 48 printable ASCII characters. Default: none. */
  prefix?: string;
}

/** A list, or a function of the request that returns whether it is listed. */
export type ListOrFunction<Args extends readonly unknown[]> = List | ((...args: Args) => MaybePromise<boolean>);

/** When keys are blocked, and for how long. */
export interface PenaltyOptions {
  /** Identity to block: ip, network, client, user, apiKey, or a combination with ip such as `"ip+account"`. Default: `"ip"`. */
  per?: Per;
  /** Number of strikes that causes the first block, 1 to 1000; every further strike causes a longer one. Default: 10. */
  strikes?: number;
  /** Length of the first block. Default: 1 minute. */
  block?: Duration;
  /** Factor by which every further block is longer, a whole number from 1. Default: 2. */
  factor?: number;
  /** Length of the longest block. Default: 1 hour, or `block` if that is longer. */
  maxBlock?: Duration;
  /** Time after which one strike is forgotten. Nothing is forgotten during a block. Default: 10 minutes. */
  forget?: Duration;
}

/** How responses to blocked keys are delayed. */
export interface TarpitOptions {
  /** Delay of each response, 1 ms to 1 minute. */
  delay: Duration;
  /** Requests that are delayed at a time in this process. Further ones get their response at once. */
  max: number;
}

/** The current block of a key. */
export interface BlockStatus {
  /** Milliseconds until the block ends. */
  readonly retryAfterMs: number;
  /** Current strikes. */
  readonly strikes: number;
}
