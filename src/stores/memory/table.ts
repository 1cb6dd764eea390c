/** The buckets of one policy, split over several `Slots` when a store is large. */
import type { Algorithm, Cells } from "../../algorithms/algorithm.ts";
import { algorithms } from "../../algorithms/algorithms.ts";
import type { Decision } from "../../core/decision.ts";
import type { Terms } from "../../core/terms.ts";
import { Slots } from "./slots.ts";

/** A `Map` moves all its entries when it grows; at this size that takes a few milliseconds. */
const KEYS_PER_SHARD = 2 ** 16;

/** All buckets that have a name and a prefix in common. */
export class Table {
  readonly algorithm: Algorithm;
  /** What an unknown key has. It is read, never written. */
  readonly untouched: Cells;
  /** The terms that keep a bucket longest, of all plans that share the table. */
  terms: Terms;
  size = 0;
  shards: readonly Slots[] = [];
  /** The only part of a table that is not split. */
  only: Slots | undefined;
  readonly count: number;
  readonly seed: number = (Math.random() * 2 ** 32) | 0;

  constructor(terms: Terms, maxKeys: number) {
    this.terms = terms;
    this.algorithm = algorithms[terms.algorithm];
    this.untouched = this.algorithm.width > 0 ? new Float64Array(this.algorithm.width) : [];
    // Up to twice the size there is one map, so that ordinary stores pay for no hash of ours.
    this.count = maxKeys <= 2 * KEYS_PER_SHARD ? 1 : 2 ** Math.ceil(Math.log2(maxKeys / KEYS_PER_SHARD));
    this.clear();
  }

  clear(): void {
    this.shards = Array.from({ length: this.count }, () => new Slots(this.algorithm.width));
    this.only = this.count === 1 ? this.shards[0] : undefined;
    this.size = 0;
  }

  /** The slots that a key belongs to, whether it is there or not. */
  slotsOf(key: string): Slots {
    return this.only ?? this.shardOf(key);
  }

  shardOf(key: string): Slots {
    // This only spreads keys over maps; the maps are the ones that chosen keys must not clog.
    let hash = this.seed;
    for (let i = 0; i < key.length; i++) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
    return this.shards[(hash ^ (hash >>> 13)) & (this.count - 1)] as Slots;
  }

  /** Slots drawn at random; keys are spread evenly, so any will do. */
  someSlots(): Slots {
    return this.shards[Math.floor(Math.random() * this.count)] as Slots;
  }

  /** Whether the key could spend `cost`. */
  fits(terms: Terms, key: string, cost: number, now: number): boolean {
    const slots = this.slotsOf(key);
    const slot = slots.slotOf.get(key);
    if (slot === undefined) return cost <= terms.limit;
    return this.algorithm.fits(slots.cells(slot), slots.at(slot), terms, cost, now);
  }

  /** What the key would be answered. */
  peek(terms: Terms, key: string, cost: number, now: number): Decision {
    const slots = this.slotsOf(key);
    const slot = slots.slotOf.get(key);
    if (slot === undefined) return this.algorithm.peek(this.untouched, 0, terms, cost, now);
    return this.algorithm.peek(slots.cells(slot), slots.at(slot), terms, cost, now);
  }

  refund(terms: Terms, key: string, cost: number, now: number): void {
    const slots = this.slotsOf(key);
    const slot = slots.slotOf.get(key);
    if (slot !== undefined) this.algorithm.refund(slots.cells(slot), slots.at(slot), terms, cost, now);
  }

  forget(key: string): void {
    const slots = this.slotsOf(key);
    const slot = slots.slotOf.get(key);
    if (slot !== undefined) this.remove(slots, slot);
  }

  /** The numbers kept for a key, or `null` when it is full and nothing needs to be kept. */
  copy(key: string, now: number): number[] | null {
    const slots = this.slotsOf(key);
    const slot = slots.slotOf.get(key);
    return slot !== undefined && this.usage(slots, slot, now) > 0 ? slots.copy(slot) : null;
  }

  add(slots: Slots, key: string): number {
    this.size++;
    return slots.add(key);
  }

  remove(slots: Slots, slot: number): void {
    this.size--;
    slots.remove(slot);
  }

  /** The part of the limit in use in a slot; at 0 it may be forgotten. */
  usage(slots: Slots, slot: number, now: number): number {
    return this.algorithm.usage(slots.cells(slot), slots.at(slot), this.terms, now);
  }
}
