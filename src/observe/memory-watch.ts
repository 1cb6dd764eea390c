/** Watches memory stores: how many keys they have, and whether they evict keys that are in use. */
import { ReportThrottle } from "../base/report-throttle.ts";
import type { Store } from "../core/store.ts";

/** A memory store as observers read it. */
export interface ObservedMemory extends Store {
  readonly size: number;
  readonly evictions: number;
  onEviction?: (() => void) | undefined;
}

/** Stores that are watched. Limiters that are created per request have one each. */
const MAX_STORES = 64;

/** The memory stores of one observer. */
export class MemoryWatch {
  private readonly stores: Map<ObservedMemory, string> = new Map();
  private readonly now: () => number;
  private readonly onEvicted: (store: string, count: number) => void;

  constructor(now: () => number, onEvicted: (store: string, count: number) => void) {
    this.now = now;
    this.onEvicted = onEvicted;
  }

  /** Watches a store, if it is one in memory and there are not too many. */
  add(store: Store): void {
    const memory = store as ObservedMemory;
    if (typeof memory.evictions !== "number" || this.stores.has(memory) || this.stores.size >= MAX_STORES) return;
    const name = this.stores.size === 0 ? "memory" : `memory-${this.stores.size + 1}`;
    this.stores.set(memory, name);
    const { onEviction: before } = memory;
    // A full store evicts a key with every new one.
    const throttle = new ReportThrottle();
    memory.onEviction = () => {
      before?.();
      const count = throttle.add(this.now());
      if (count > 0) this.onEvicted(name, count);
    };
  }

  /** The stores with their names. */
  entries(): IterableIterator<[ObservedMemory, string]> {
    return this.stores.entries();
  }
}
