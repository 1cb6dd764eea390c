/** One charge to one bucket, and the checks that every store relies on. */

import { optionError } from "../base/errors.ts";
import type { CompiledPolicy, Mode } from "./compiled-policy.ts";
import type { Inspection } from "./decision.ts";
import type { DecideResult, State } from "./state.ts";

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
  /** Of the modes `hold` and `settle`: made by `holdTerms` of `sluice/algorithms`. */
  readonly hold?: HoldTerms | undefined;
}

/** The terms of a charge in mode `hold` or `settle`. */
export interface HoldTerms {
  /** The hold's id. */
  readonly id: string;
  /** How long it lasts in ms, unless it is settled; of a settlement, 0. */
  readonly forMs: number;
  /** Decides the charge. `holdTerms` adds it; stores that decide elsewhere don't need it. */
  readonly engine?: HoldEngine;
}

/**
 * Decides charges to buckets that have holds, or get one. States and charges bring it, so an application without holds
 * does not contain it.
 */
export interface HoldEngine {
  /** Whether a charge admits its group. */
  fits(state: State | undefined, charge: Charge, now: number): boolean;
  /** Applies a charge if it fits. */
  decide(state: State | undefined, charge: Charge, now: number): DecideResult;
  /** Decides a charge of a denied group. `isViolation`: a charge in mode `penalty` takes its cost. */
  deny(state: State | undefined, charge: Charge, now: number, isViolation: boolean): DecideResult;
  /** Describes the holds and the debt of a bucket. */
  describe(state: State, policy: CompiledPolicy, now: number): Pick<Inspection, "holds" | "debt">;
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
