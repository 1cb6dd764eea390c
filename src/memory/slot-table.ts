/**
 * Buckets of one policy side by side: a `Map` from key to slot over one flat array of cells. Slots are dense, so that a
 * random one can be picked. `Map` has a seeded hash; a table of our own would need a keyed hash that costs more than a
 * whole decision.
 */

import { copyKey } from "../base/copy-key.ts";
import type { Algorithm, Cells, CompiledPolicy } from "../core/compiled-policy.ts";
import { decide } from "../core/decide.ts";
import { type HeldState, isHeldState, type PlainState, type State } from "../core/state.ts";
import { usage } from "../core/step.ts";

const INITIAL_SLOTS = 16;

/** A bucket with holds. Its slot is not in `slotOf`, so that plain charges need no check for holds. */
interface HeldSlot {
  slot: number;
  state: HeldState;
}

/** The buckets of one policy, or a shard of them. */
export class SlotTable {
  readonly algorithm: Algorithm;
  keys: string[] = [];
  readonly slotOf: Map<string, number> = new Map();
  /** The buckets with holds, whose cells are not used. */
  readonly held: Map<string, HeldSlot> = new Map();
  /** The cells of all slots; slot `i` starts at `i * algorithm.width`. */
  cells: Cells = [];
  /** Of all plans that share the buckets, the one that keeps a bucket longest. */
  policy: CompiledPolicy;

  constructor(policy: CompiledPolicy) {
    this.policy = policy;
    this.algorithm = policy.algorithm;
    this.clear();
  }

  clear(): void {
    this.keys = [];
    this.slotOf.clear();
    this.held.clear();
    this.cells = this.algorithm.list ? [] : new Float64Array(INITIAL_SLOTS * this.algorithm.width);
  }

  /** Adds an untouched bucket for a key that has none. */
  add(given: string): number {
    const key = copyKey(given);
    const slot = this.addCells(key);
    this.slotOf.set(key, slot);
    return slot;
  }

  /** Adds a bucket with holds for a key that has none. */
  addHeld(given: string, state: HeldState): void {
    const key = copyKey(given);
    this.held.set(key, { slot: this.addCells(key), state });
  }

  private addCells(key: string): number {
    const { cells, keys, algorithm } = this;
    const slot = keys.push(key) - 1;
    const at = slot * algorithm.width;
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
    if (!slotOf.delete(keys[slot] as string)) this.held.delete(keys[slot] as string);
    const moved = keys.pop() as string;
    const last = keys.length;
    if (slot !== last) {
      keys[slot] = moved;
      const held = this.held.get(moved);
      if (held) held.slot = slot;
      else slotOf.set(moved, slot);
      cells.copyWithin(slot * algorithm.width, last * algorithm.width, (last + 1) * algorithm.width);
    }
    if (!(cells instanceof Float64Array)) cells.length = last;
  }

  /** The slot of a key, whether it has holds or not. */
  find(key: string): number | undefined {
    return this.slotOf.get(key) ?? (this.held.size > 0 ? this.held.get(key)?.slot : undefined);
  }

  /** The state of a slot. A list is not copied: it must not be changed. */
  read(slot: number): State {
    const { cells, algorithm } = this;
    const held = this.held.size > 0 ? this.held.get(this.keys[slot] as string) : undefined;
    if (held) return held.state;
    const at = slot * algorithm.width;
    return cells instanceof Float64Array ? [...cells.subarray(at, at + algorithm.width)] : (cells[at] as number[]);
  }

  write(slot: number, state: State): void {
    const key = this.keys[slot] as string;
    if (isHeldState(state)) {
      const held = this.held.get(key);
      if (held) held.state = state;
      else this.held.set(key, { slot, state });
      this.slotOf.delete(key);
      return;
    }
    if (this.held.delete(key)) this.slotOf.set(key, slot);
    this.writeCells(slot, state);
  }

  private writeCells(slot: number, state: PlainState): void {
    const { cells, algorithm } = this;
    const at = slot * algorithm.width;
    if (cells instanceof Float64Array) cells.set(state, at);
    else cells[at] = state as number[];
  }

  /** The used share of the limit; at 0 the slot may be removed. */
  usage(slot: number, now: number): number {
    const { algorithm, cells, policy } = this;
    const held = this.held.size > 0 ? this.held.get(this.keys[slot] as string) : undefined;
    if (held) {
      const { decision } = decide(held.state, { policy, key: "", cost: 0, mode: "peek" }, now);
      return decision.resetAfterMs === 0 ? 0 : Math.max(Number.MIN_VALUE, 1 - decision.remaining / policy.limit);
    }
    return usage({ algorithm, cells, at: slot * algorithm.width, policy }, now);
  }
}
