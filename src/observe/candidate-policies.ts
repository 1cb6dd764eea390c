/** Turns a measured rate into policies in text, with whole numbers. */

import { SluiceError } from "../base/errors.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import { compilePolicy } from "../policy/compile-policy.ts";
import type { PolicyText } from "../policy/text-type.ts";

/** A policy as text and as stores use it. */
interface CandidatePolicy {
  readonly text: PolicyText;
  readonly compiled: CompiledPolicy;
}

/** Up to three policies to replay, smallest capacity first, and the index of the suggested one. */
export interface CandidatePolicies {
  readonly policies: readonly CandidatePolicy[];
  readonly suggested: number;
}

/** What the policies are made from. */
export interface PolicySize {
  /** Cost to refill in `perMs`. Not necessarily a whole number. */
  readonly refill: number;
  readonly perMs: number;
  /** Smallest and largest capacity, as time to refill. */
  readonly burstMs: readonly [number, number];
  /** The suggested capacity is at least this. */
  readonly minCapacity: number;
}

const UNITS = [
  ["s", 1000],
  ["m", 60_000],
  ["h", 3_600_000],
  ["d", 86_400_000],
] as const;
/** From this count on, rounding it up adds at most a tenth. */
const MIN_ROUNDED_COUNT = 10;
/** Above this count, only multiples of 1000 are rates that a bucket can keep exactly. */
const MAX_EXACT_COUNT = 1e9;
/** Products such as 1.1 x 10 are slightly above the whole number that they stand for. */
const TOLERANCE = 1e-12;

/**
 * One rate and three capacities: the smallest, the middle and the largest. The middle one is suggested; it is raised to
 * `minCapacity`, also above the largest. Equal capacities are listed once. `undefined`: no policy can have these numbers.
 */
export function candidatePolicies({ refill, perMs, burstMs, minCapacity }: PolicySize): CandidatePolicies | undefined {
  const { count, unit, unitMs } = wholeRate(refill / perMs);
  const [least, most] = burstMs.map((ms) => ceil((count * ms) / unitMs)) as [number, number];
  const middle = Math.max(Math.ceil((least + most) / 2), minCapacity);
  try {
    const create = (capacity: number): CandidatePolicy => {
      const text = `${count}/${unit} burst ${capacity}` as const;
      return { text, compiled: compilePolicy(text) };
    };
    const capacities = [...new Set([least, middle, most])].sort((a, b) => a - b);
    return { policies: capacities.map(create), suggested: capacities.indexOf(middle) };
  } catch (error) {
    if (error instanceof SluiceError && error.isCallerError) return undefined;
    throw error;
  }
}

/** Rounds up to a whole count, in the shortest unit in which that adds at most a tenth. */
function wholeRate(costPerMs: number): { count: number; unit: "s" | "m" | "h" | "d"; unitMs: number } {
  const isClose = (count: number) => count >= MIN_ROUNDED_COUNT || ceil(count) - count <= count * TOLERANCE;
  const [unit, unitMs] = UNITS.find(([, ms]) => isClose(costPerMs * ms)) ?? UNITS[3];
  const count = ceil(costPerMs * unitMs);
  return { count: count > MAX_EXACT_COUNT ? 1000 * Math.ceil(count / 1000) : count, unit, unitMs };
}

function ceil(value: number): number {
  const nearest = Math.round(value);
  return Math.abs(value - nearest) <= value * TOLERANCE ? nearest : Math.ceil(value);
}
