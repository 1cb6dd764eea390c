/** The answer to "may this key spend this cost now?". Durations only, never timestamps. */

/** What every decision tells, allowed or denied. */
export interface Figures {
  /** The name of the policy that these figures belong to; of a combination, the binding one. */
  readonly policy: string;
  /** The most that fits at once: a bucket's capacity or a window's limit. */
  readonly limit: number;
  /** What is left after this decision: a whole number >= 0. */
  readonly remaining: number;
  /** Milliseconds until nothing is in use any more; 0 when full. */
  readonly resetAfterMs: number;
  /** Milliseconds until `remaining` grows; 0 when full. */
  readonly nextAfterMs: number;
  /** Of a combination: what each part would have said alone, in the order given. */
  readonly parts?: readonly Decision[];
  /** Decided without the store, because it failed. */
  readonly degraded?: true;
  /** The store is approximate by nature. */
  readonly approximate?: true;
  /** Only the verdict is known; the figures are not. */
  readonly unknown?: true;
}

/** Go ahead; the cost is taken. */
export interface Allowed extends Figures {
  readonly allowed: true;
  /** Leaky bucket only: wait this long before going ahead. */
  readonly delayMs?: number;
  /** Absent on an allowed decision; in the type so that it can be destructured. */
  readonly retryAfterMs?: undefined;
}

/** Not now; nothing was taken. */
export interface Denied extends Figures {
  readonly allowed: false;
  /** Milliseconds until this cost fits, at least 1; `null` always and only means that it never can. */
  readonly retryAfterMs: number | null;
  readonly delayMs?: undefined;
  /** Denied because the store could not be asked; not the caller's fault. */
  readonly unavailable?: true;
}

/** The answer to one charge. A plain object, never a boolean: ask for `.allowed`. */
export type Decision = Allowed | Denied;

/** What is kept about one key, for a human. */
export interface Inspection {
  /** The name of the policy. */
  readonly policy: string;
  /** The key as the caller names it. */
  readonly key: string;
  /** The key as the store names it. */
  readonly storedKey: string;
  /** Whether the store keeps anything for it; a full bucket needs nothing kept. */
  readonly found: boolean;
  /** The most that fits at once. */
  readonly limit: number;
  /** What is left now. */
  readonly remaining: number;
  /** Milliseconds until nothing is in use any more. */
  readonly resetAfterMs: number;
  /** Milliseconds until the store forgets it; `null` when nothing is kept. */
  readonly ttlMs: number | null;
  /** The stored value as it is; its form belongs to the store and may change between versions. */
  readonly raw: unknown;
  /** Of a combination: one for each part. */
  readonly parts?: readonly Inspection[];
}
