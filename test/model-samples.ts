/** Policies for random walks, listed and random, each with its rule for the model, and seeded random numbers. */
import type { Decision, Mode, Policy, RateText } from "sluice";
import { algorithms, type CompiledPolicy, compilePolicy, decide, type PlainState } from "sluice/algorithms";
import type { RateAlgorithm } from "../src/testing/subject.ts";
import type { Rule } from "./algorithm-models.ts";
import { bucketRule, windowRule } from "./model.ts";

/** A policy as users write it, compiled, and as a rule of the model. */
export interface Sample {
  readonly policy: Policy;
  readonly compiled: CompiledPolicy;
  readonly rule: Rule;
}

/** Returns numbers from 0 to below 1. */
export type Random = () => number;

/** Seeded random numbers (mulberry32). */
export function seededRandom(seed: number): Random {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A whole number from 0 to below `end`, which may be larger than 2^32. */
export function whole(random: Random, end: number): number {
  return Math.min(end - 1, Math.floor((random() + random() / 2 ** 32) * end));
}

export function oneOf<T>(random: Random, list: readonly T[]): T {
  return list[Math.floor(random() * list.length)] as T;
}

const MAX_SAFE = Number.MAX_SAFE_INTEGER;
export const MAX_COST = 2 ** 31 - 1;
/** Maximum limit of a scaled plan. */
const MAX_SCALED_LIMIT = 1_000_000;
const SECOND = 1000;
export const HOUR = 3_600_000;
export const DAY = 86_400_000;

/** Capacity, rate as users write it, and the same rate as tokens per interval in ms. */
const BUCKETS: readonly (readonly [number, number | RateText, bigint, bigint])[] = [
  [10, 10, 1n, 100n],
  [10, 5, 1n, 200n],
  [2, 10, 1n, 100n],
  [1, 1, 1n, 1000n],
  [1, 1000, 1n, 1n],
  [3, "3/h", 3n, 3_600_000n],
  [3, 3 / 3600, 1n, 1_200_000n],
  [5, 0.1, 1n, 10_000n],
  [7, 1 / 1200, 1n, 1_200_000n],
  [1, "1/30d", 1n, 2_592_000_000n],
  [40, "1/30d", 1n, 2_592_000_000n],
  [100, 12345.67, 1_234_567n, 100_000n],
  [13, 12345.67, 1_234_567n, 100_000n],
  [1000, 1e6, 1000n, 1n],
  [50_000, 1e6, 1000n, 1n],
  [50, "100/15m", 100n, 900_000n],
  [150, "1000/7ms", 1000n, 7n],
  [20, "7/3s", 7n, 3000n],
  // Rates for which multiplying by the reciprocal is wrong (49 x (1/49) < 1).
  [200, "49/ms", 49n, 1n],
  [500, "103/ms", 103n, 1n],
  // The largest exact numbers: many parts, long fill times, fast rates.
  [MAX_COST, "3/4194304ms", 3n, 4_194_304n],
  [9, "5/999999999999999ms", 5n, 999_999_999_999_999n],
  [9, "4294967291/999999999999998ms", 4_294_967_291n, 999_999_999_999_998n],
  [4_194_303, "4294967291/2147483648ms", 4_294_967_291n, 2_147_483_648n],
  [MAX_SAFE, "4294967291/ms", 4_294_967_291n, 1n],
  [MAX_SAFE, 2000, 2n, 1n],
  [2 ** 52, 1000, 1n, 1n],
];

/** Limit and window. */
const WINDOWS: readonly (readonly [number, number])[] = [
  [10, SECOND],
  [1, 1],
  [1, SECOND],
  [2, 2],
  [3, 7],
  [5, 1],
  [100, 60_000],
  [4, 50],
  [7, HOUR],
  [30, 30 * DAY],
  [1000, 100],
  [13, 9973],
];

const LARGE_WINDOWS: readonly (readonly [number, number])[] = [
  [MAX_COST, 2 ** 21],
  [2 ** 26 - 1, 2 ** 26],
  [2, 2 ** 51 - 1],
  [1, 2 ** 51],
  [2 ** 52 - 1, 1],
  [1_499_999, 3_002_401_753],
];

const LARGE_LOGS: readonly (readonly [number, number])[] = [
  [10_000, 5000 * DAY],
  [10_000, 60_000],
  [2, 2 ** 51 - 1],
  [1, 2 ** 51],
];

/** The listed policies of an algorithm. */
export function samplesOf(algorithm: RateAlgorithm): Sample[] {
  if (algorithm === "token-bucket" || algorithm === "leaky-bucket") {
    return BUCKETS.map(([capacity, rate, tokens, everyMs]) => bucketSample(algorithm, capacity, rate, tokens, everyMs));
  }
  const large = algorithm === "sliding-log" ? LARGE_LOGS : LARGE_WINDOWS;
  return [...WINDOWS, ...large].map(([limit, windowMs]) => windowSample(algorithm, limit, windowMs));
}

/** A random policy. */
export function randomSample(algorithm: RateAlgorithm, random: Random): Sample {
  const limit = 1 + whole(random, oneOf(random, [3, 12, 60]));
  if (algorithm === "token-bucket" || algorithm === "leaky-bucket") {
    const count = 1 + whole(random, oneOf(random, [3, 30, 3000]));
    const everyMs = 1 + whole(random, oneOf(random, [20, 2000, HOUR]));
    const capacity = Math.max(limit, Math.ceil(count / everyMs));
    return bucketSample(algorithm, capacity, `${count}/${everyMs}ms`, BigInt(count), BigInt(everyMs));
  }
  return windowSample(algorithm, limit, 1 + whole(random, oneOf(random, [5, 300, 20_000])));
}

/** A plan that can share buckets with `sample`: the same window or fill time, another limit. */
export function anotherPlan(sample: Sample, random: Random): Sample {
  const { compiled, rule } = sample;
  const { algorithm } = rule;
  const { limit, windowMs } = compiled;
  const factors = [1, ...[2, 3, 7, 10, 97, 1000].filter((factor) => limit * factor <= MAX_SCALED_LIMIT)];
  const scaled = Math.max(1, Math.floor((limit * oneOf(random, factors)) / oneOf(random, [1, 2, 3, 10, 50])));
  if (algorithm === "token-bucket" || algorithm === "leaky-bucket") {
    // The fill time stays limit x q / p ms: the rate grows with the capacity.
    const [tokens, everyMs] = [BigInt(scaled) * rule.p, BigInt(limit) * rule.q];
    const plan = bucketRule(algorithm, BigInt(scaled), tokens, everyMs);
    const isExact =
      plan.p <= 2n ** 32n && plan.q * BigInt(scaled) <= BigInt(MAX_SAFE) && plan.p <= BigInt(scaled) * plan.q;
    if (!isExact || plan.q >= 10n ** 15n) return sample;
    return bucketSample(algorithm, scaled, `${Number(plan.p)}/${Number(plan.q)}ms`, plan.p, plan.q);
  }
  const largest = algorithm === "sliding-log" ? 10_000 : Math.floor(MAX_SAFE / windowMs / 2);
  return windowSample(algorithm, Math.min(scaled, largest), windowMs);
}

export function bucketSample(
  algorithm: "token-bucket" | "leaky-bucket",
  capacity: number,
  rate: number | RateText,
  tokens: bigint,
  everyMs: bigint,
): Sample {
  const policy: Policy =
    algorithm === "token-bucket"
      ? { algorithm, capacity, tokensPerSecond: rate }
      : { algorithm, capacity, leaksPerSecond: rate };
  return { policy, compiled: compilePolicy(policy), rule: bucketRule(algorithm, BigInt(capacity), tokens, everyMs) };
}

export function windowSample(
  algorithm: "fixed-window" | "sliding-window" | "sliding-log",
  limit: number,
  windowMs: number,
): Sample {
  // An algorithm that code can't name is brought by the policy.
  const isNamed = ["fixed-window", "sliding-window", "sliding-log"].includes(algorithm);
  const policy = { algorithm: isNamed ? algorithm : algorithms[algorithm], limit, windowMs } as Policy;
  return { policy, compiled: compilePolicy(policy), rule: windowRule(algorithm, BigInt(limit), BigInt(windowMs)) };
}

/** A key of `decide` alone, for schedules without a model. */
export function createKey(compiled: CompiledPolicy) {
  let state: PlainState | undefined;
  const charge =
    (mode: Mode) =>
    (cost: number, now: number, under: CompiledPolicy = compiled): Decision => {
      const outcome = decide(state, { policy: under, key: "key", cost, mode }, now);
      state = outcome.state as PlainState;
      return outcome.decision;
    };
  return { take: charge("take"), peek: charge("peek"), refund: charge("refund") };
}

/** A policy that reaches all of its states within a few hundred milliseconds. */
export function smallSample(name: RateAlgorithm, random: Random): Sample {
  const limit = 1 + whole(random, 6);
  if (name === "token-bucket" || name === "leaky-bucket") {
    const tokens = 1 + whole(random, 7);
    const everyMs = 1 + whole(random, 60);
    const capacity = Math.max(limit, Math.ceil(tokens / everyMs));
    return bucketSample(name, capacity, `${tokens}/${everyMs}ms`, BigInt(tokens), BigInt(everyMs));
  }
  return windowSample(name, limit, 1 + whole(random, 90));
}
