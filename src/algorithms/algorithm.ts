/**
 * What the five algorithms have in common. Each says how much is in use, how long until some of it is
 * given back, and how to write a change down. All else is the same for all of them and stands here.
 * No clock and no I/O: time is an argument.
 */
import type { Decision } from "../core/decision.ts";
import type { AlgorithmName } from "../core/policy.ts";
import type { Terms } from "../core/terms.ts";

/**
 * A bucket's state is a run of whole numbers from `cells[at]` on, or one list of them at `cells[at]`.
 * Zeros, or an empty list, are an untouched bucket. The caller owns the cells, so that a store keeps
 * them as it likes: memory holds the cells of all keys in one flat array.
 */
export type Cells = Float64Array | number[] | number[][];

/** What tells one algorithm from another. Amounts are in units: a cost of 1 is `terms.unit` of them. */
export interface Way {
  readonly name: AlgorithmName;
  /** How many cells a bucket needs. */
  readonly width: number;
  /** Whether its one cell is a list. */
  readonly list?: true;
  /** Whether what is allowed has to wait for what was allowed before. */
  readonly queues?: true;
  /** What is in use. */
  used(cells: Cells, at: number, terms: Terms, now: number): number;
  /** Milliseconds until `amount` of what is in use is given back. */
  wait(cells: Cells, at: number, terms: Terms, now: number, amount: number): number;
  /** Milliseconds until nothing is in use. Only asked when something is. */
  reset(cells: Cells, at: number, terms: Terms, now: number, used: number): number;
  /** Whether the state lies in the future: the clock has stepped back. */
  ahead(cells: Cells, at: number, terms: Terms, now: number, used: number): boolean;
  /** Writes down that `cost` was taken when `used` was in use, and leaves nothing in the future. */
  add(cells: Cells, at: number, terms: Terms, now: number, used: number, cost: number): void;
  /** Writes down that `cost` was given back, or all that is in use if that is less. */
  giveBack(cells: Cells, at: number, terms: Terms, now: number, used: number, cost: number): void;
}

/** One way to count. It reads and writes the cells it is given and touches nothing else. */
export class Algorithm {
  readonly way: Way;
  readonly name: AlgorithmName;
  /** How many cells a bucket needs. */
  readonly width: number;
  /** Whether its one cell is a list. */
  readonly list: boolean;

  constructor(way: Way) {
    this.way = way;
    this.name = way.name;
    this.width = way.width;
    this.list = way.list === true;
  }

  /** Takes `cost` if it fits. A denial leaves the cells alone, except to heal a state from the future. */
  take(cells: Cells, at: number, terms: Terms, cost: number, now: number): Decision {
    const { way } = this;
    const used = way.used(cells, at, terms, now);
    const over = excess(used, terms, cost);
    if (over > 0) {
      if (cost <= terms.limit && way.ahead(cells, at, terms, now, used)) way.add(cells, at, terms, now, used, 0);
      return this.deny(cells, at, terms, now, used, cost, over);
    }
    if (cost > 0) way.add(cells, at, terms, now, used, cost);
    return this.allow(cells, at, terms, now, used + cost * terms.unit, used);
  }

  /** What `take` would answer, with the figures before taking. Writes nothing. */
  peek(cells: Cells, at: number, terms: Terms, cost: number, now: number): Decision {
    const used = this.way.used(cells, at, terms, now);
    const over = excess(used, terms, cost);
    if (over > 0) return this.deny(cells, at, terms, now, used, cost, over);
    return this.allow(cells, at, terms, now, used, used);
  }

  /** Whether `take` would allow `cost`. */
  fits(cells: Cells, at: number, terms: Terms, cost: number, now: number): boolean {
    return excess(this.way.used(cells, at, terms, now), terms, cost) <= 0;
  }

  /** Gives `cost` back, never above full. */
  refund(cells: Cells, at: number, terms: Terms, cost: number, now: number): void {
    // A full bucket stays as it is: written anew, it would lie in the future of a clock that steps back.
    const used = this.way.used(cells, at, terms, now);
    if (used > 0) this.way.giveBack(cells, at, terms, now, used, cost);
  }

  /** The part of the limit in use, from 0 to 1. At 0 the bucket is full and may be forgotten. */
  usage(cells: Cells, at: number, terms: Terms, now: number): number {
    return Math.min(1, this.way.used(cells, at, terms, now) / terms.cap);
  }

  private allow(cells: Cells, at: number, terms: Terms, now: number, used: number, before: number): Decision {
    const { name: policy, limit, cap, unit } = terms;
    const remaining = used < cap ? Math.floor((cap - used) / unit) : 0;
    const resetAfterMs = used > 0 ? this.way.reset(cells, at, terms, now, used) : 0;
    const nextAfterMs = used > 0 ? this.way.wait(cells, at, terms, now, excess(used, terms, remaining + 1)) : 0;
    if (!this.way.queues) return { allowed: true, policy, limit, remaining, resetAfterMs, nextAfterMs };
    const delayMs = Math.ceil(before / terms.p);
    return { allowed: true, policy, limit, remaining, resetAfterMs, nextAfterMs, delayMs };
  }

  private deny(cells: Cells, at: number, terms: Terms, now: number, used: number, cost: number, over: number): Decision {
    const { policy, limit, remaining, resetAfterMs, nextAfterMs } = this.allow(cells, at, terms, now, used, used);
    const retryAfterMs = cost > limit ? null : this.way.wait(cells, at, terms, now, over);
    return { allowed: false, policy, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs };
  }
}

/** By how much `cost` does not fit; it fits at 0 or less. In this order every step is exact. */
function excess(used: number, { cap, unit }: Terms, cost: number): number {
  return used - (cap - cost * unit);
}

/** The start of the window that `now` is in: windows begin at multiples of their length. */
export function windowStart({ windowMs }: Terms, now: number): number {
  return now - (now % windowMs);
}
