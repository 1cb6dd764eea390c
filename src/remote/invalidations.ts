/**
 * When this process last refunded or reset a key. Denials that were sent before that are out of date: a cached one must
 * not be replayed, and a reply that was in flight must not be cached.
 */
import { BoundedMap } from "../base/bounded-map.ts";

/** Evicted entries collapse into one timestamp that applies to all keys. */
const MAX_KEYS = 1000;
/** Longer keys are recorded as if they were all keys. */
const MAX_KEY_LENGTH = 1024;

/** The invalidations of one store. Times are monotonic milliseconds. */
export class Invalidations {
  private allBefore: number = Number.NEGATIVE_INFINITY;
  private readonly times: BoundedMap<string, number> = new BoundedMap({
    maxEntries: MAX_KEYS,
    maxKeyLength: MAX_KEY_LENGTH,
    onEvict: (_, time) => {
      this.allBefore = Math.max(this.allBefore, time);
    },
  });

  /** Records that budget of a key was freed. */
  record(policyId: string, key: string, now: number): void {
    if (!this.times.set(`${policyId}\0${key}`, now)) this.allBefore = now;
  }

  /** Whether a decision that was requested at `sentAt` is still valid. */
  isCurrent(policyId: string, key: string, sentAt: number): boolean {
    if (sentAt <= this.allBefore) return false;
    return this.times.size === 0 || sentAt > (this.times.get(`${policyId}\0${key}`) ?? Number.NEGATIVE_INFINITY);
  }
}
