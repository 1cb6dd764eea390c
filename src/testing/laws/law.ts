/** The shape of a contract case for limiters, and helpers that most cases use. */

import type { AlgorithmName, Policy } from "../../core/policy.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import { algorithms } from "../../holds/all-algorithms.ts";
import { check } from "../check.ts";
import type { Random } from "../random.ts";
import { policyOf, type Subject } from "../subject.ts";

/** Creates the limiters for a law. */
export interface Bench {
  readonly algorithm: AlgorithmName;
  readonly random: Random;
  /** Creates a limiter with no stored state. */
  create(policy: Policy): Promise<Subject>;
}

/** One case of the contract. Its title completes "it ...". */
export interface Law {
  readonly title: string;
  /** Required ability: time that passes, time that moves by exact milliseconds, or a restart. Default: none. */
  readonly needs?: "time" | "fake time" | "restart";
  /** The algorithms that it applies to. Default: all. */
  readonly only?: readonly AlgorithmName[];
  run(bench: Bench): Promise<void>;
}

export const HOUR: number = 3_600_000;
export const BUCKETS: readonly AlgorithmName[] = ["token-bucket", "leaky-bucket"];

/** A policy that is too slow to refill while a case runs on a real clock. */
export function slow(bench: Bench, limit: number): Policy {
  return policyOf(bench.algorithm, limit, 24 * HOUR);
}

/** Makes `count` charges of cost 1, which must all be allowed. */
export async function drain(limiter: RateLimiter, key: string, count: number): Promise<void> {
  for (let i = 0; i < count; i++) check((await limiter.consume(key)).allowed, `charge ${i + 1} of ${count} was denied`);
}

/** Advances the subject's time. */
export async function advance(subject: Subject, ms: number): Promise<void> {
  check(subject.advance !== undefined, "this case needs time: return { limiter, advance } from create");
  await subject.advance(ms);
}

/**
 * A small instant at the same position within the window as the subject's clock. Reads the position from a charge to a
 * key of its own.
 */
export async function windowPhase({ limiter }: Subject): Promise<number> {
  const { algorithm, windowMs } = limiter.getPolicy();
  const { resetAfterMs } = await limiter.consume("clock phase");
  // Windows start at multiples of their length; those that look back one window end one window later.
  const isAligned = algorithms[algorithm].mergesAs === "window";
  const left = !isAligned ? windowMs : resetAfterMs > windowMs ? resetAfterMs - windowMs : resetAfterMs;
  return 10_000 * windowMs - left;
}
