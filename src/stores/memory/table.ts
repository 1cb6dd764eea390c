/** The buckets of one policy, split over several `Slots` when a store is large. */
import type { Algorithm } from "../../algorithms/algorithm.ts";
import { algorithms } from "../../algorithms/algorithms.ts";
import type { Mode } from "../../core/charge.ts";
import type { Decision } from "../../core/decision.ts";
import type { Terms } from "../../core/terms.ts";
import { Slots } from "./slots.ts";

/** A `Map` moves all its entries when it grows; at this size that takes a few milliseconds. */
const KEYS_PER_SHARD = 2 ** 16;

/** All buckets that have a name and a prefix in common. Keys are as stored. */
export class Table {
  readonly algorithm: Algorithm;
  /** The terms that keep a bucket longest, of all plans that share the table. */
  terms: Terms;
  size = 0;
  /** What unknown keys have. It is read, never written. */
  private readonly untouched: Slots;
  private shards: readonly Slots[] = [];
  /** The only one, when there is one. */
  private whole: Slots | undefined;
  private readonly count: number;
  private readonly seed: number = (Math.random() * 2 ** 32) | 0;

  constructor(terms: Terms, maxKeys: number) {
    this.terms = terms;
    this.algorithm = algorithms[terms.algorithm];
    this.untouched = new Slots(this.algorithm);
    this.untouched.add("");
    // Up to twice the size there is one map, so that ordinary stores pay for no hash of ours.
    this.count = maxKeys <= 2 * KEYS_PER_SHARD ? 1 : 2 ** Math.ceil(Math.log2(maxKeys / KEYS_PER_SHARD));
    this.clear();
  }

  clear(): void {
    this.shards = Array.from({ length: this.count }, () => new Slots(this.algorithm));
    this.whole = this.count === 1 ? this.shards[0] : undefined;
    this.size = 0;
  }

  /** The slots that a key belongs to, whether it is there or not. */
  slotsFor(key: string): Slots {
    return this.whole ?? this.shardFor(key);
  }

  /** Slots drawn at random; keys are spread evenly, so that any will do. */
  someSlots(): Slots {
    return this.shards[Math.floor(Math.random() * this.count)] as Slots;
  }

  /** Looks, or gives back and looks. */
  answer(terms: Terms, key: string, cost: number, now: number, mode: Exclude<Mode, "take">): Decision {
    const { algorithm } = this;
    const known = this.slotsFor(key);
    const slot = known.slotOf.get(key);
    const { cells, width } = slot === undefined ? this.untouched : known;
    const at = (slot ?? 0) * width;
    if (mode === "peek") return algorithm.peek(cells, at, terms, cost, now);
    if (slot !== undefined) algorithm.refund(cells, at, terms, cost, now);
    return algorithm.peek(cells, at, terms, 0, now);
  }

  /** Whether the key could spend `cost`. */
  fits(terms: Terms, key: string, cost: number, now: number): boolean {
    const { slotOf, cells, width } = this.slotsFor(key);
    const slot = slotOf.get(key);
    return slot === undefined ? cost <= terms.limit : this.algorithm.fits(cells, slot * width, terms, cost, now);
  }

  add(slots: Slots, key: string): number {
    this.size++;
    return slots.add(key);
  }

  remove(slots: Slots, slot: number | undefined): void {
    if (slot === undefined) return;
    this.size--;
    slots.remove(slot);
  }

  /** The part of the limit in use in a slot; at 0 it may be forgotten. */
  usage({ cells, width }: Slots, slot: number, now: number): number {
    return this.algorithm.usage(cells, slot * width, this.terms, now);
  }

  private shardFor(key: string): Slots {
    // This only spreads keys over maps; the maps are the ones that chosen keys must not clog.
    let hash = this.seed;
    for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
    return this.shards[(hash ^ (hash >>> 13)) & (this.count - 1)] as Slots;
  }
}
