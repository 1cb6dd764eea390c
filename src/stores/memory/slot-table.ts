/**
 * Buckets of one policy side by side: a `Map` from key to slot over one flat array of cells. Slots are dense, so that a
 * random one can be picked. `Map` has a seeded hash; a table of our own would need a keyed hash that costs more than a
 * whole decision.
 */
import type { Algorithm, Cells } from "../../algorithms/algorithm.ts";
import { algorithms } from "../../algorithms/algorithms.ts";
import type { State } from "../../algorithms/decide.ts";
import { usage } from "../../algorithms/step.ts";
import type { CompiledPolicy } from "../../core/compiled-policy.ts";
import { copyKey } from "../../core/copy-key.ts";

const INITIAL_SLOTS = 16;

/** The buckets of one policy, or a shard of them. */
export class SlotTable {
  readonly algorithm: Algorithm;
  keys: string[] = [];
  readonly slotOf: Map<string, number> = new Map();
  /** The cells of all slots; slot `i` starts at `i * algorithm.width`. */
  cells: Cells = [];
  /** Of all plans that share the buckets, the one that keeps a bucket longest. */
  policy: CompiledPolicy;

  constructor(policy: CompiledPolicy) {
    this.policy = policy;
    this.algorithm = algorithms[policy.algorithm];
    this.clear();
  }

  clear(): void {
    this.keys = [];
    this.slotOf.clear();
    this.cells = this.algorithm.list ? [] : new Float64Array(INITIAL_SLOTS * this.algorithm.width);
  }

  /** Adds an untouched bucket for a key that has none. */
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

  /** Removes a slot; the last one moves to its place. */
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

  /** The state of a slot. A list is not copied: it must not be changed. */
  read(slot: number): State {
    const { cells, algorithm } = this;
    const at = slot * algorithm.width;
    return cells instanceof Float64Array ? [...cells.subarray(at, at + algorithm.width)] : (cells[at] as number[]);
  }

  write(slot: number, state: State): void {
    const { cells, algorithm } = this;
    const at = slot * algorithm.width;
    if (cells instanceof Float64Array) cells.set(state, at);
    else cells[at] = state as number[];
  }

  /** The used share of the limit; at 0 the slot may be removed. */
  usage(slot: number, now: number): number {
    const { algorithm, cells, policy } = this;
    return usage({ algorithm, cells, at: slot * algorithm.width, policy }, now);
  }
}
