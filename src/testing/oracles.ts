/** Checks on a log of admitted charges that hold for every correct limiter. */

import type { ResolvedPolicy } from "../core/policy.ts";
import { algorithms } from "../holds/all-algorithms.ts";

/** One admitted charge. */
export interface Admission {
  /** Time of the charge by the store's clock, in ms. */
  readonly atMs: number;
  /** Admitted cost. A refund is negative. */
  readonly cost: number;
}

/** An interval in which more was admitted than the policy allows. */
export interface Excess {
  /** Start of the interval in ms, inclusive. */
  readonly fromMs: number;
  /** End of the interval in ms, inclusive. */
  readonly toMs: number;
  /** Cost admitted in the interval. */
  readonly admitted: number;
  /** Maximum cost that the policy allows in the interval. */
  readonly bound: number;
}

/**
 * Returns the first interval of the log that exceeds the bound of its policy, or `undefined`. Checks every interval from
 * one admission to another. `atMs` must not decrease within the log.
 */
export function findExcess(log: readonly Admission[], policy: ResolvedPolicy): Excess | undefined {
  for (let first = 0; first < log.length; first++) {
    const { atMs: fromMs } = log[first] as Admission;
    let admitted = 0;
    for (let last = first; last < log.length; last++) {
      const { atMs: toMs, cost } = log[last] as Admission;
      admitted += cost;
      const bound = boundOf(policy, fromMs, toMs);
      if (admitted > bound) return { fromMs, toMs, admitted, bound };
    }
  }
  return undefined;
}

/** The maximum cost from one instant to another, both inclusive. */
function boundOf(
  { algorithm, limit, windowMs, tokensPerSecond }: ResolvedPolicy,
  fromMs: number,
  toMs: number,
): number {
  const elapsed = toMs - fromMs;
  // Admitted costs are whole numbers, so the floor rejects nothing valid. The margin covers rounding of the rate.
  if (!algorithms[algorithm].form.options.includes("windowMs")) {
    return Math.floor(limit + (tokensPerSecond * elapsed) / 1000 + 1e-6);
  }
  if (algorithms[algorithm].list) return limit * (Math.floor(elapsed / windowMs) + 1);
  // Aligned windows each hold the limit.
  return limit * (Math.floor(toMs / windowMs) - Math.floor(fromMs / windowMs) + 1);
}

/** The minimum that a saturated bucket admits in `elapsedMs`, with no fraction of a token lost. */
export function leastAdmitted({ limit, tokensPerSecond }: ResolvedPolicy, elapsedMs: number, cost: number): number {
  return Math.ceil(limit + (tokensPerSecond * elapsedMs) / 1000 - cost - 1e-6);
}
