/** What the five algorithms have in common: arithmetic on a few whole numbers, with time as an argument. */
import type { Allowed, Decision, Denied } from "../core/decision.ts";
import type { AlgorithmName } from "../core/policy.ts";
import type { Terms } from "../core/terms.ts";

/**
 * A bucket's state is a run of whole numbers from `cells[at]` on. Zeros, or an empty list, are an
 * untouched bucket. The caller owns the cells, so that a store keeps them as it likes: memory holds
 * the cells of all keys in one flat array.
 */
export type Cells = Float64Array | number[];

/** One way to count. It reads and writes the cells it is given and touches nothing else. */
export interface Algorithm {
  readonly name: AlgorithmName;
  /** How many cells a bucket needs; 0 when it keeps a list. */
  readonly width: number;
  /** Takes `cost` if it fits. A denial leaves the cells alone, except to heal a state from the future. */
  take(cells: Cells, at: number, terms: Terms, cost: number, now: number): Decision;
  /** What `take` would answer, with the figures before taking. Writes nothing. */
  peek(cells: Cells, at: number, terms: Terms, cost: number, now: number): Decision;
  /** Whether `take` would allow `cost`. */
  fits(cells: Cells, at: number, terms: Terms, cost: number, now: number): boolean;
  /** Gives `cost` back, never above full. */
  refund(cells: Cells, at: number, terms: Terms, cost: number, now: number): void;
  /** The part of the limit in use, from 0 to 1. At 0 the bucket is full and may be forgotten. */
  usage(cells: Cells, at: number, terms: Terms, now: number): number;
}

/** An allowed decision. */
export function allow(terms: Terms, remaining: number, resetAfterMs: number, nextAfterMs: number): Allowed {
  return { allowed: true, policy: terms.name, limit: terms.limit, remaining, resetAfterMs, nextAfterMs };
}

/** A denied decision. */
export function deny(
  terms: Terms,
  remaining: number,
  resetAfterMs: number,
  nextAfterMs: number,
  retryAfterMs: number | null,
): Denied {
  return { allowed: false, policy: terms.name, limit: terms.limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs };
}

/** The start of the window that `now` is in: windows begin at multiples of their length. */
export function windowStart(terms: Terms, now: number): number {
  return now - (now % terms.windowMs);
}
