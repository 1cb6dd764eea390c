/**
 * Keys and their cells: a `Map` from key to slot over one flat array. Slots are dense, so that any of
 * them can be drawn at random. A `Map` is used for its hash, which the engine seeds; a table of our own
 * would need a keyed hash that costs more than a whole decision.
 */
import type { Algorithm, Cells } from "../../algorithms/algorithm.ts";

const FIRST_SIZE = 16;

/** The buckets of one policy, or a part of them. */
export class Slots {
  readonly keys: string[] = [];
  readonly slotOf: Map<string, number> = new Map();
  /** The cells of all slots; slot `i` begins at `i * width`. */
  cells: Cells;
  readonly width: number;

  constructor({ width, list }: Algorithm) {
    this.width = width;
    this.cells = list ? [] : new Float64Array(width * FIRST_SIZE);
  }

  /** Makes an untouched bucket for a key that has none. */
  add(key: string): number {
    const slot = this.keys.push(key) - 1;
    this.slotOf.set(key, slot);
    const { cells, width } = this;
    const at = slot * width;
    if (!(cells instanceof Float64Array)) {
      cells[at] = [];
    } else if (at < cells.length) {
      cells.fill(0, at, at + width);
    } else {
      this.cells = new Float64Array(cells.length * 2);
      this.cells.set(cells);
    }
    return slot;
  }

  /** Forgets a slot; the last one takes its place. */
  remove(slot: number): void {
    this.slotOf.delete(this.keys[slot] as string);
    const moved = this.keys.pop() as string;
    const last = this.keys.length;
    const { cells, width } = this;
    if (slot !== last) {
      this.keys[slot] = moved;
      this.slotOf.set(moved, slot);
      cells.copyWithin(slot * width, last * width, (last + 1) * width);
    }
    if (!(cells instanceof Float64Array)) cells.length = last;
  }

  /** A slot's numbers, for a human. */
  copy(slot: number): number[] {
    return [...this.cells.slice(slot * this.width, (slot + 1) * this.width)].flat();
  }
}
