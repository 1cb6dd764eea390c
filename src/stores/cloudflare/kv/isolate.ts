/** The entries of one KV namespace in this isolate, with a bound on their memory. */
import { monotonicMs } from "../../../base/clock.ts";
import { shared } from "../../../base/shared-state.ts";
import type { KVNamespaceLike } from "../platform.ts";
import { Entry } from "./kv-entry.ts";

/** Maximum size of all entries, in numbers. */
const MAX_NUMBERS = 500_000;
/** Number of random entries of which one is evicted. */
const EVICTION_CANDIDATES = 8;
/** A request that takes longer was cancelled: its pending reads never settle. */
const MAX_REQUEST_MS = 10_000;

/** The entries of one namespace. */
export class Isolate {
  /** Why writes fail; `undefined` while they succeed. */
  warning: string | undefined;
  // Not a `BoundedMap`, which would evict by age: see evictOne().
  private readonly entries: Map<string, Entry> = new Map();
  /** The same entries as an array, to pick some at random. */
  private readonly list: Entry[] = [];
  private numbers = 0;

  /**
   * Runs a request on the entries of some buckets. They are not evicted meanwhile: a second entry of the same bucket
   * would grant its limit again.
   */
  async use<T>(buckets: readonly string[], run: (entries: readonly Entry[]) => Promise<T>): Promise<T> {
    const entries = buckets.map((bucket) => this.entryOf(bucket));
    for (const entry of entries) {
      entry.requests++;
      entry.requestedAt = monotonicMs();
    }
    for (const entry of entries) this.updateWeight(entry);
    try {
      return await run(entries);
    } finally {
      for (const entry of entries) entry.requests--;
    }
  }

  /** Updates the memory that an entry takes, and evicts entries if all of them take too much. */
  updateWeight(entry: Entry): void {
    if (entry.index < 0) return;
    this.numbers -= entry.weight;
    entry.weight = entry.size;
    this.numbers += entry.weight;
    while (this.numbers > MAX_NUMBERS && this.evictOne()) {}
  }

  private entryOf(bucket: string): Entry {
    const found = this.entries.get(bucket);
    if (found) return found;
    const entry = new Entry(bucket);
    entry.index = this.list.push(entry) - 1;
    this.entries.set(entry.bucket, entry);
    return entry;
  }

  /**
   * Evicts the entry with the most budget left of a random few that are not in use. Not LRU: a denied client could evict
   * its own count by sending new keys. Of equal entries, prefers one without changes to write.
   */
  private evictOne(): boolean {
    const now = monotonicMs();
    let chosen: Entry | undefined;
    for (let i = 0; i < EVICTION_CANDIDATES; i++) {
      const entry = this.list[Math.floor(Math.random() * this.list.length)] as Entry;
      if (entry.requests > 0 && now - entry.requestedAt < MAX_REQUEST_MS) continue;
      const difference = chosen ? entry.usageAt(now) - chosen.usageAt(now) : -1;
      if (difference < 0 || (difference === 0 && !entry.dirty)) chosen = entry;
    }
    if (!chosen) return false;
    this.entries.delete(chosen.bucket);
    this.numbers -= chosen.weight;
    const last = this.list.pop() as Entry;
    if (last !== chosen) {
      this.list[chosen.index] = last;
      last.index = chosen.index;
    }
    chosen.index = -1;
    return true;
  }
}

const isolates = /* @__PURE__ */ shared("isolates", () => new WeakMap<KVNamespaceLike, Isolate>());

/** Returns the entries of a namespace, which all stores on it share. */
export function isolateOf(kv: KVNamespaceLike): Isolate {
  let isolate = isolates.get(kv);
  if (!isolate) isolates.set(kv, (isolate = new Isolate()));
  return isolate;
}
