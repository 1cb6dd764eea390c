/**
 * The interface of an algorithm: how much is in use, how long until some of it is available again, and how a change is
 * recorded. step.ts builds every decision from these functions. No clock and no I/O: time is an argument.
 */
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import type { Decision } from "../core/decision.ts";
import type { AlgorithmName } from "../core/policy.ts";
import type { PolicyForm } from "./policy-form.ts";

/**
 * A bucket's state is `width` whole numbers from `cells[at]` on, or one list of them at `cells[at]`. Zeros, or an empty
 * list, are an untouched bucket. The caller owns the cells: the memory store keeps those of all keys in one flat array.
 */
export type Cells = Float64Array | number[] | number[][];

/** An algorithm. Amounts are in units: a cost of 1 is `policy.unitsPerToken` units. */
export interface Algorithm {
  /** Its name in policies. */
  readonly name: AlgorithmName;
  /** How its policies are written. */
  readonly form: PolicyForm;
  /** Number of cells per bucket. */
  readonly width: number;
  /** Whether its one cell is a list. */
  readonly list?: true;
  /** Whether an allowed charge has to wait for those before it, as in a queue. */
  readonly queues?: true;
  /** Whether its only state is holds, and a hold that is over leaves no charge. */
  readonly holdsOnly?: true;
  /** A whole `take` in one function, if the generic one of step.ts is too slow. */
  take?(cells: Cells, at: number, policy: CompiledPolicy, cost: number, now: number): Decision;
  /** Units in use. */
  used(cells: Cells, at: number, policy: CompiledPolicy, now: number): number;
  /** Milliseconds until `amount` of the units in use is available again. */
  wait(cells: Cells, at: number, policy: CompiledPolicy, now: number, amount: number): number;
  /** Milliseconds until nothing is in use. Called only if something is. */
  reset(cells: Cells, at: number, policy: CompiledPolicy, now: number, used: number): number;
  /** Whether the state is dated in the future, because the clock has stepped back. */
  isInFuture(cells: Cells, at: number, policy: CompiledPolicy, now: number, used: number): boolean;
  /** Records that `cost` was taken while `used` was in use, and clamps a state dated in the future. */
  add(cells: Cells, at: number, policy: CompiledPolicy, now: number, used: number, cost: number): void;
  /**
   * Records that `cost` was refunded, or all that is in use if that is less. If the end of the grant is known, which is
   * later than `now`, it refunds no more than is still in use of that grant.
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
  /** Blocks the key for at least `forMs`. Only of penalties. */
  block?(cells: Cells, at: number, now: number, forMs: number): void;
  /** Ends a block and returns whether there was one. Only of penalties. */
  unblock?(cells: Cells, at: number, now: number): boolean;
  /** How much longer a denied cost waits in ms if it is `extra` greater. Absent: that depends on the state. */
  extraWaitMs?(policy: CompiledPolicy, extra: number): number;
  /** Whether a list of whole numbers is a state of this algorithm. Only for list states; others are checked by `width`. */
  isList?(state: readonly number[]): boolean;
  /**
   * How stores that are eventually consistent merge counts that were made apart: as the start of a window and its
   * counters, or as a list of ends and costs. Absent: such stores don't support the algorithm.
   */
  readonly mergesAs?: "window" | "log";
}

/** The start of the window that contains `now`. Windows start at multiples of their length. */
export function windowStart({ windowMs }: CompiledPolicy, now: number): number {
  return now - (now % windowMs);
}

/** Whether whole numbers are a state of an algorithm, and not of another one. */
export function isState(state: readonly number[], { width, list, isList }: Algorithm): boolean {
  if (!state.every(Number.isSafeInteger)) return false;
  return list ? isList?.(state) === true : state.length === width;
}
