/**
 * Buckets side by side: a `Map` from key to slot over one flat array of cells. Slots are dense, so that
 * any of them can be drawn at random. A `Map` is used for its hash, which the engine seeds; a table of
 * our own would need a keyed hash that costs more than a whole decision.
 */
import type { Algorithm, Cells } from "../../algorithms/algorithm.ts";
import { algorithms } from "../../algorithms/algorithms.ts";
import { usage } from "../../algorithms/step.ts";
import type { CompiledPolicy } from "../../core/compile.ts";
import { copyKey } from "../../core/copy-key.ts";

const FIRST_SIZE = 16;

/** The buckets of one policy, or a part of them. */
export class SlotTable {
  readonly algorithm: Algorithm;
  keys: string[] = [];
  readonly slotOf: Map<string, number> = new Map();
  /** The cells of all slots; slot `i` begins at `i * algorithm.width`. */
  cells: Cells = [];
  /** The policy that keep a bucket longest, of all plans that share these. */
  policy: CompiledPolicy;

  constructor(policy: CompiledPolicy) {
    this.policy = policy;
    this.algorithm = algorithms[policy.algorithm];
    this.clear();
  }

  clear(): void {
    this.keys = [];
    this.slotOf.clear();
    this.cells = this.algorithm.list ? [] : new Float64Array(FIRST_SIZE * this.algorithm.width);
  }

  /** Makes an untouched bucket for a key that has none. */
  add(given: string): number {
    const { cells, keys, algorithm } = this;
    const key = copyKey(given);
    const slot = keys.push(key) - 1;
    const at = slot * algorithm.width;
    this.slotOf.set(key, slot);
    if (!(cells instanceof Float64Array)) {
      cells[at] = [];
    } else if (at < cells.length) {
      cells.fill(0, at, at + algorithm.width);
    } else {
      this.cells = new Float64Array(2 * cells.length);
      this.cells.set(cells);
    }
    return slot;
  }

  /** Forgets a slot; the last one takes its place. */
  remove(slot: number): void {
    const { cells, keys, slotOf, algorithm } = this;
    slotOf.delete(keys[slot] as string);
    const moved = keys.pop() as string;
    const last = keys.length;
    if (slot !== last) {
      keys[slot] = moved;
      slotOf.set(moved, slot);
      cells.copyWithin(slot * algorithm.width, last * algorithm.width, (last + 1) * algorithm.width);
    }
    if (!(cells instanceof Float64Array)) cells.length = last;
  }

  /** The part of the limit in use; at 0 the slot may be forgotten. */
  usage(slot: number, now: number): number {
    return usage(this.algorithm, this.cells, slot * this.algorithm.width, this.policy, now);
  }
}
