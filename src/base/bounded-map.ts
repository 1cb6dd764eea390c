/** A map with a maximum size, for everything that is keyed by what clients send. */
import { copyKey } from "./copy-key.ts";

/** Limits of a bounded map. */
export interface BoundedMapOptions<K, V> {
  /** Evicts an entry when there would be more than this many. */
  maxEntries: number;
  /** Doesn't keep string keys that are longer, so that a header can't fill the memory. Default: no limit. */
  maxKeyLength?: number;
  /** Evicts the oldest entry (`"insertion"`) or the least recently used one (`"lru"`). Default: `"insertion"`. */
  order?: "insertion" | "lru";
  /** Called with every evicted entry, and not with deleted ones. */
  onEvict?(key: K, value: V): void;
}

/** A `Map` that evicts entries. String keys are copied, because a slice of a header or URL retains the whole of it. */
export class BoundedMap<K, V> {
  private readonly entries: Map<K, V> = new Map();
  private readonly maxEntries: number;
  private readonly maxKeyLength: number;
  private readonly isLru: boolean;
  private readonly onEvict: ((key: K, value: V) => void) | undefined;

  constructor(options: BoundedMapOptions<K, V>) {
    this.maxEntries = options.maxEntries;
    this.maxKeyLength = options.maxKeyLength ?? Number.POSITIVE_INFINITY;
    this.isLru = options.order === "lru";
    this.onEvict = options.onEvict;
  }

  get size(): number {
    return this.entries.size;
  }

  get(key: K): V | undefined {
    const value = this.entries.get(key);
    if (this.isLru && value !== undefined) {
      this.entries.delete(key);
      this.entries.set(typeof key === "string" ? (copyKey(key) as K & string) : key, value);
    }
    return value;
  }

  has(key: K): boolean {
    return this.entries.has(key);
  }

  /** Sets an entry and makes it the newest one. Returns whether it was kept: long keys are not. */
  set(key: K, value: V): boolean {
    this.entries.delete(key);
    if (typeof key === "string" && key.length > this.maxKeyLength) return false;
    this.entries.set(typeof key === "string" ? (copyKey(key) as K & string) : key, value);
    if (this.entries.size > this.maxEntries) this.evict();
    return true;
  }

  delete(key: K): boolean {
    return this.entries.delete(key);
  }

  clear(): void {
    this.entries.clear();
  }

  /** The entries, oldest first. */
  [Symbol.iterator](): IterableIterator<[K, V]> {
    return this.entries[Symbol.iterator]();
  }

  private evict(): void {
    const [key, value] = this.entries.entries().next().value as [K, V];
    this.entries.delete(key);
    this.onEvict?.(key, value);
  }
}
