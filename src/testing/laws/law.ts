/** What a law of limiters is, and what most of them need. */
import type { AlgorithmName, Policy } from "../../core/policy.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import { check } from "../check.ts";
import type { Random } from "../random.ts";
import { policyOf, type Subject } from "../subject.ts";

/** What a law is tried on. */
export interface Bench {
  readonly algorithm: AlgorithmName;
  readonly random: Random;
  /** A fresh limiter. */
  create(policy: Policy): Promise<Subject>;
}

/** One law, or a part of one. */
export interface Law {
  readonly title: string;
  /** What it needs: nothing, time that passes, time that can be moved by the millisecond, or a restart. */
  readonly needs?: "time" | "fake time" | "restart";
  /** The only algorithms that it speaks of. Default: all. */
  readonly only?: readonly AlgorithmName[];
  run(bench: Bench): Promise<void>;
}

export const HOUR: number = 3_600_000;
export const BUCKETS: readonly AlgorithmName[] = ["token-bucket", "leaky-bucket"];

/** Whatever is slower than this does not refill while a case runs on a real clock. */
export function slow(bench: Bench, limit: number): Policy {
  return policyOf(bench.algorithm, limit, 24 * HOUR);
}

/** Spends so many, one by one. */
export async function drain(limiter: RateLimiter, key: string, limit: number): Promise<void> {
  for (let i = 0; i < limit; i++) check((await limiter.consume(key)).allowed, `charge ${i + 1} of ${limit} was denied`);
}

/** Lets time pass. */
export async function pass(subject: Subject, ms: number): Promise<void> {
  check(subject.advance !== undefined, "this law needs time: return { limiter, advance } from create");
  await subject.advance(ms);
}

/**
 * Where in its window the subject's clock stands, as a small instant that is equal to it in every
 * window up to an hour. Told by a charge to a key that nobody else uses.
 */
export async function phase({ limiter }: Subject): Promise<number> {
  const { algorithm, windowMs } = limiter.getPolicy();
  const { resetAfterMs } = await limiter.consume("the phase of the clock");
  const left =
    algorithm === "fixed-window" ? resetAfterMs : algorithm === "sliding-window" ? resetAfterMs - windowMs : windowMs;
  return 10_000 * windowMs - left;
}
