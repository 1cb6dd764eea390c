/** Checks on a log of decisions that need no model: they hold for every right limiter. */
import { algorithms } from "../algorithms/algorithms.ts";
import type { ResolvedPolicy } from "../core/policy.ts";

/** One admitted charge: when, by the store's clock, and how much. A refund is a negative cost. */
export interface Admission {
  readonly atMs: number;
  readonly cost: number;
}

/** An interval in which more was admitted than the policy allows. */
export interface Excess {
  readonly fromMs: number;
  readonly toMs: number;
  readonly admitted: number;
  readonly bound: number;
}

/**
 * The first interval of the log that breaks the bound of its policy, or `undefined`. Every interval
 * that begins and ends at an admission is tried; time must not run backwards in the log.
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

/** The most that may be admitted from one instant to another, both included. */
function boundOf(
  { algorithm, limit, windowMs, tokensPerSecond }: ResolvedPolicy,
  fromMs: number,
  toMs: number,
): number {
  const elapsed = toMs - fromMs;
  // A whole number was admitted, so that the floor takes no room; the margin is for the rounding of the rate alone.
  if (!algorithms[algorithm].form.options.includes("windowMs")) {
    return Math.floor(limit + (tokensPerSecond * elapsed) / 1000 + 1e-6);
  }
  if (algorithms[algorithm].list) return limit * (Math.floor(elapsed / windowMs) + 1);
  // Aligned windows: each holds the limit.
  return limit * (Math.floor(toMs / windowMs) - Math.floor(fromMs / windowMs) + 1);
}

/** The least that a saturated bucket admits: not even a fraction of a token is lost. */
export function leastAdmitted({ limit, tokensPerSecond }: ResolvedPolicy, elapsedMs: number, cost: number): number {
  return Math.ceil(limit + (tokensPerSecond * elapsedMs) / 1000 - cost - 1e-6);
}
