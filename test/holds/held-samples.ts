/** Policies, costs and instants for random walks over buckets with holds. */

import type { CompiledPolicy, Decision } from "sluice";
import { concurrency, penalty } from "sluice";
import { compilePolicy } from "sluice/algorithms";
import type { Random } from "../../src/testing/random.ts";
import type { RateAlgorithm } from "../../src/testing/subject.ts";
import type { Rule } from "../algorithm-models.ts";
import { anotherPlan, randomSample, type Sample, samplesOf } from "../model-samples.ts";

/** The algorithms with holds. */
export const HELD_ALGORITHMS = [
  "token-bucket",
  "fixed-window",
  "sliding-window",
  "sliding-log",
  "concurrency",
] as const satisfies readonly (RateAlgorithm | "concurrency")[];
export type HeldAlgorithm = (typeof HELD_ALGORITHMS)[number];

/** A compiled policy, and the same as a rule of the model. */
export interface HeldSample {
  readonly compiled: CompiledPolicy;
  readonly rule: Rule;
  /** Another plan that shares its buckets. */
  another(): HeldSample;
}

const DAY = 86_400_000;
/** Longest window or fill time of a policy with holds, as in holds/hold-charge.ts. */
const MAX_WINDOW_MS = 2 ** 50;
/** Largest limit of a sliding log with holds. */
const MAX_LOG_LIMIT = 1000;
const MAX_COST = 2 ** 31 - 1;
/** After it, two fills and a hold are still exact. */
const MAX_TIME = 2 ** 51;

export function heldSample(name: HeldAlgorithm, random: Random): HeldSample {
  if (name === "concurrency") return concurrencySample(random);
  const next = (): number => random.whole(0, 2 ** 32 - 1) / 2 ** 32;
  const supported = ({ compiled: { windowMs, limit } }: Sample): boolean =>
    windowMs <= MAX_WINDOW_MS && (name !== "sliding-log" || limit <= MAX_LOG_LIMIT);
  const listed = samplesOf(name).filter(supported);
  const wrap = (sample: Sample): HeldSample => ({
    compiled: sample.compiled,
    rule: sample.rule,
    another() {
      const plan = anotherPlan(sample, next);
      return wrap(supported(plan) ? plan : sample);
    },
  });
  return wrap(random.whole(1, 10) <= 5 ? random.pick(listed) : randomSample(name, next));
}

function concurrencySample(random: Random): HeldSample {
  const limit = random.whole(1, random.pick([3, 12, 60]));
  const compiled = compilePolicy(concurrency(limit, { leaseMs: random.whole(1, 5000) }));
  // The model only reads its limit.
  const rule = { algorithm: "fixed-window", limit: BigInt(limit), windowMs: 1n, p: 0n, q: 0n } as const;
  return { compiled, rule, another: () => concurrencySample(random) };
}

export function penaltyPolicy(random: Random): CompiledPolicy {
  const blockMs = random.whole(1, random.pick([5, 1000, 60_000]));
  return compilePolicy(
    penalty({
      strikes: random.whole(1, 4),
      blockMs,
      factor: random.pick([1, 2, 2, 3, 10]),
      maxBlockMs: blockMs * random.pick([1, 3, 8, 100]),
      forgetMs: random.whole(1, random.pick([5, 1000, 200_000])),
    }),
  );
}

export function nextCost(random: Random, { limit }: CompiledPolicy, remaining: number): number {
  const costs = [1, 1, 1, 2, 0, remaining, remaining + 1, limit, limit + 1, random.whole(1, limit)];
  return Math.min(random.pick(costs), MAX_COST);
}

/** The durations after which a decision or the state promises a change. */
export function promisedWaits(decision: Decision, endsAt: readonly bigint[], now: number): number[] {
  const waits = endsAt.flatMap((end) => [Number(end) - now, Number(end) - now]);
  waits.push(decision.resetAfterMs, decision.nextAfterMs);
  if (!decision.allowed)
    waits.push(decision.retryAfterMs ?? 0, decision.retryAfterMs ?? 0, decision.earliestRetryMs ?? 0);
  return waits.filter((wait) => wait > 0);
}

/** The next instant of a walk: often the same one, or a promised one and 1 ms around it, and sometimes an earlier one. */
export function nextInstant(random: Random, now: number, waits: readonly number[], spanMs: number): number {
  const roll = random.whole(1, 100);
  if (roll <= 6) {
    const back = random.pick([1, 5, random.whole(1, spanMs), random.whole(1, 40 * DAY)]);
    return Math.max(0, now - back);
  }
  if (roll <= 38) return now;
  if (roll <= 68 && waits.length > 0) {
    return Math.min(MAX_TIME, Math.max(now, now + random.pick(waits) + random.pick([0, 0, 0, -1, 1])));
  }
  const gaps = [0, 1, 2, random.whole(0, Math.max(1, Math.floor(spanMs / 20))), random.whole(0, 2 * spanMs)];
  return Math.min(MAX_TIME, now + random.pick(gaps));
}
