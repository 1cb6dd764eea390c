/** One spending of one cost by one key, and the checks that every store relies on. */

import type { CompiledPolicy } from "./compile.ts";
import { optionError } from "./errors.ts";

/** Take it, only look, or give it back. */
export type Mode = "take" | "peek" | "refund";

/** What a store is asked to do to one bucket. Key and cost have been checked. */
export interface Charge {
  /** The policy, as the arithmetic sees it. */
  readonly policy: CompiledPolicy;
  /** The caller's key. */
  readonly key: string;
  /** A whole number >= 0. */
  readonly cost: number;
  /** Take, peek or refund. */
  readonly mode: Mode;
  /**
   * Of a refund: when the grant expires, by the store's clock. Nothing is given back afterwards, and before it no more
   * than is still in use of the grant. Without it, whatever is in use may be given back.
   */
  readonly grantEndsAt?: number | undefined;
}

/** Charges that stand or fall together. It names no bucket twice. */
export type Group = readonly Charge[];

/** The most charges that one decision may combine. */
export const MAX_CHARGES = 16;

/** Costs are whole: half a request is not a thing, and fractions are how buckets drift. */
export function isCost(cost: unknown): cost is number {
  return typeof cost === "number" && (cost | 0) === cost && cost >= 0;
}

/** Refuses what is not a cost. */
export function checkCost(cost: number): void {
  if (isCost(cost)) return;
  throw optionError("invalid-cost", "cost", "a whole number from 0 to 2147483647", cost);
}

/** An empty key is nearly always a missing identity, and would put everybody in one bucket. */
export function checkKey(key: string): void {
  if (typeof key === "string" && key !== "") return;
  throw optionError("invalid-key", "key", "a string that is not empty", key);
}
