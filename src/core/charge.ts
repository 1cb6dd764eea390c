/** One charge to one bucket, and the checks that every store relies on. */

import type { CompiledPolicy } from "./compiled-policy.ts";
import { optionError } from "./errors.ts";

/**
 * The mode of a charge: it takes its cost, only checks it, refunds it, or resets the bucket. `hold` reserves its cost under
 * an id, and `settle` replaces that hold by the actual cost. `penalty` checks, and takes if another charge of its group is
 * denied. On a penalty, `hold` blocks the key, and `settle` ends the block.
 */
export type Mode = "take" | "peek" | "refund" | "reset" | "hold" | "settle" | "penalty";

/** One charge to one bucket. Key and cost have been checked. */
export interface Charge {
  /** The policy of the bucket. */
  readonly policy: CompiledPolicy;
  /** The caller's key. */
  readonly key: string;
  /** A whole number >= 0. */
  readonly cost: number;
  /** What to do with the cost. */
  readonly mode: Mode;
  /**
   * Of a refund: when the grant expires, by the store's clock. Nothing is refunded after that, and before it no more than
   * is still in use of the grant. Without it, anything in use may be refunded.
   */
  readonly grantEndsAt?: number | undefined;
  /** Of the modes `hold` and `settle`: the hold's id, and in ms how long it lasts unless it is settled (`settle`: 0). */
  readonly hold?: { readonly id: string; readonly forMs: number } | undefined;
}

/** Charges that are applied all or nothing. A group names no bucket twice. */
export type Group = readonly Charge[];

/** Maximum number of charges in one decision. */
export const MAX_CHARGES = 16;

/** The largest cost. */
export const MAX_COST: number = 2 ** 31 - 1;

/** Costs are whole numbers: fractions would make buckets drift. */
export function isCost(cost: unknown): cost is number {
  return typeof cost === "number" && (cost | 0) === cost && cost >= 0;
}

/** Throws if it is not a cost. */
export function checkCost(cost: number): void {
  if (isCost(cost)) return;
  throw optionError("invalid-cost", "cost", "a whole number from 0 to 2147483647", cost);
}

/** Throws if it is not a key. An empty key is nearly always a missing identity, and would put all clients in one bucket. */
export function checkKey(key: string): void {
  if (typeof key === "string" && key !== "") return;
  throw optionError("invalid-key", "key", "a string that is not empty", key);
}
