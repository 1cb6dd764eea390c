/** The result of "may this key spend this cost now?". It contains durations, never timestamps. */

/** Where a decision was made if not by the store: repeated from the denial cache, by the local fallback, or by failing open or closed. */
export type DecisionSource = "cache" | "local" | "open" | "closed";

/** The fields of every decision, allowed or denied. */
export interface DecisionFields {
  /** Name of the policy that the numbers belong to; of a combination, the limiting one. */
  readonly policy: string;
  /** The largest cost that fits at once: a bucket's capacity or a window's limit. */
  readonly limit: number;
  /** Cost that is left after this decision: a whole number >= 0. */
  readonly remaining: number;
  /** Milliseconds until nothing is in use any more; 0 if nothing is. */
  readonly resetAfterMs: number;
  /** Milliseconds until `remaining` grows; 0 if nothing is in use. */
  readonly nextAfterMs: number;
  /** Sum of the key's holds and debt, which is not part of `remaining`; absent if 0. */
  readonly held?: number;
  /** Of a settlement: the part of the actual cost that is not charged, because a debt is at most one limit; absent if 0. */
  readonly forgiven?: number;
  /** Of a combination: the decision of each part, in the order given. */
  readonly parts?: readonly Decision[];
  /** Decided without the store, because it failed. */
  readonly degraded?: true;
  /** Decided by a store that is approximate. */
  readonly approximate?: true;
  /** Only `allowed` is known; the numbers are not. */
  readonly unknown?: true;
  /** Where the decision was made; absent if the store made it. */
  readonly source?: DecisionSource;
}

/** The cost was taken. */
export interface Allowed extends DecisionFields {
  /** The cost fits. */
  readonly allowed: true;
  /** Leaky bucket only: milliseconds to wait before going ahead. */
  readonly delayMs?: number;
  /** Absent on an allowed decision; in the type so that it can be destructured. */
  readonly retryAfterMs?: undefined;
}

/** Nothing was taken. */
export interface Denied extends DecisionFields {
  /** The cost does not fit. */
  readonly allowed: false;
  /** Milliseconds until this cost fits, at least 1. `null` always and only means that it never can. */
  readonly retryAfterMs: number | null;
  /** Milliseconds until this cost could fit if all holds were cancelled now. Absent unless less than `retryAfterMs`. */
  readonly earliestRetryMs?: number;
  /** Absent on a denied decision; in the type so that it can be destructured. */
  readonly delayMs?: undefined;
  /** Denied because the store is unavailable and the limiter fails closed. */
  readonly unavailable?: true;
}

/** The decision on one charge. A plain object, never a boolean: check `.allowed`. */
export type Decision = Allowed | Denied;

/** The stored state of one key, for people to read. */
export interface Inspection {
  /** Name of the policy. */
  readonly policy: string;
  /** The key as the caller passed it. */
  readonly key: string;
  /** The key as it is stored. */
  readonly storedKey: string;
  /** Whether anything is stored; a full bucket needs nothing. */
  readonly found: boolean;
  /** The largest cost that fits at once. */
  readonly limit: number;
  /** Cost that is left now. */
  readonly remaining: number;
  /** Milliseconds until nothing is in use any more. */
  readonly resetAfterMs: number;
  /** Milliseconds until the stored value expires; `null` if nothing is stored. */
  readonly ttlMs: number | null;
  /** The stored value. Its form belongs to the store and may change between versions. */
  readonly raw: unknown;
  /** The key's holds, if it has any: id, amount, and milliseconds until the hold ends. */
  readonly holds?: readonly { readonly id: string; readonly amount: number; readonly endsAfterMs: number }[];
  /** Settled cost that has not fit yet; absent if 0. */
  readonly debt?: number;
  /** Of a penalty: current strikes. */
  readonly strikes?: number;
  /** Of a penalty: milliseconds until the block ends; 0 if the key is not blocked. */
  readonly blockedMs?: number;
  /** Of a combination: the inspection of each part. */
  readonly parts?: readonly Inspection[];
}
