/**
 * What tells one algorithm from another: how much is in use, how long until some of it is given back,
 * and how a change is written down. All else is the same for all of them and stands in step.ts.
 * No clock and no I/O: time is an argument.
 */

import type { CompiledPolicy } from "../core/compile.ts";
import type { Decision } from "../core/decision.ts";
import type { AlgorithmName } from "../core/policy.ts";

/**
 * A bucket's state is a run of whole numbers from `cells[at]` on, or one list of them at `cells[at]`.
 * Zeros, or an empty list, are an untouched bucket. The caller owns the cells, so that a store keeps
 * them as it likes: memory holds the cells of all keys in one flat array.
 */
export type Cells = Float64Array | number[] | number[][];

/** One way to count. Amounts are in units: a cost of 1 is `policy.unit` of them. */
export interface Algorithm {
  readonly name: AlgorithmName;
  /** How many cells a bucket needs. */
  readonly width: number;
  /** Whether its one cell is a list. */
  readonly list?: true;
  /** Whether what is allowed has to wait for what was allowed before. */
  readonly queues?: true;
  /** The whole of a `take`, where the generic one of step.ts is too slow. */
  take?(cells: Cells, at: number, policy: CompiledPolicy, cost: number, now: number): Decision;
  /** What is in use. */
  used(cells: Cells, at: number, policy: CompiledPolicy, now: number): number;
  /** Milliseconds until `amount` of what is in use is given back. */
  wait(cells: Cells, at: number, policy: CompiledPolicy, now: number, amount: number): number;
  /** Milliseconds until nothing is in use. Only asked when something is. */
  reset(cells: Cells, at: number, policy: CompiledPolicy, now: number, used: number): number;
  /** Whether the state lies in the future: the clock has stepped back. */
  isInFuture(cells: Cells, at: number, policy: CompiledPolicy, now: number, used: number): boolean;
  /** Writes down that `cost` was taken when `used` was in use, and leaves nothing in the future. */
  add(cells: Cells, at: number, policy: CompiledPolicy, now: number, used: number, cost: number): void;
  /**
   * Writes down that `cost` was given back, or all that is in use if that is less. If it is known when the grant ends,
   * which is later than `now`, no more than what is still in use of that grant.
   */
  refund(
    cells: Cells,
    at: number,
    policy: CompiledPolicy,
    now: number,
    used: number,
    cost: number,
    grantEndsAt: number | undefined,
  ): void;
}

/** The start of the window that `now` is in: windows begin at multiples of their length. */
export function windowStart({ windowMs }: CompiledPolicy, now: number): number {
  return now - (now % windowMs);
}
