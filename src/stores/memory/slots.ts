/**
 * Keys and their cells: a `Map` from key to slot over one flat array. Slots are dense, so that any of
 * them can be drawn at random. A `Map` is used for its hash, which the engine seeds; a table of our own
 * would need a keyed hash that costs more than a whole decision.
 */
import type { Cells } from "../../algorithms/algorithm.ts";

const FIRST_SIZE = 16;

/** The buckets of one policy, or a part of them. Fields are for this folder only. */
export class Slots {
  readonly keys: string[] = [];
  readonly width: number;
  readonly slotOf: Map<string, number> = new Map();
  /** The cells of all slots in one run; empty when each slot has a list of its own. */
  flat: Float64Array;
  readonly lists: number[][] = [];

  constructor(width: number) {
    this.width = width;
    this.flat = new Float64Array(width * FIRST_SIZE);
  }

  get size(): number {
    return this.keys.length;
  }

  /** The array that holds a slot's cells, from `at(slot)` on. */
  cells(slot: number): Cells {
    return this.width > 0 ? this.flat : (this.lists[slot] as number[]);
  }

  /** Where a slot's cells begin. */
  at(slot: number): number {
    return slot * this.width;
  }

  /** A slot's numbers, for a human. */
  copy(slot: number): number[] {
    return this.width > 0 ? [...this.flat.subarray(this.at(slot), this.at(slot + 1))] : [...(this.lists[slot] as number[])];
  }

  /** Makes an untouched bucket for a key that has none. */
  add(key: string): number {
    const slot = this.keys.length;
    this.keys.push(key);
    this.slotOf.set(key, slot);
    if (this.width === 0) {
      this.lists.push([]);
      return slot;
    }
    if (this.at(slot) === this.flat.length) {
      const larger = new Float64Array(this.flat.length * 2);
      larger.set(this.flat);
      this.flat = larger;
    }
    this.flat.fill(0, this.at(slot), this.at(slot + 1));
    return slot;
  }

  /** Forgets a slot; the last one takes its place. */
  remove(slot: number): void {
    const last = this.keys.length - 1;
    this.slotOf.delete(this.keys[slot] as string);
    const moved = this.keys.pop() as string;
    const list = this.lists.pop();
    if (slot === last) return;
    this.keys[slot] = moved;
    this.slotOf.set(moved, slot);
    if (list) this.lists[slot] = list;
    else this.flat.copyWithin(this.at(slot), this.at(last), this.at(last + 1));
  }
}
