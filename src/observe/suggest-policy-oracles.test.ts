/** Tests suggestions against slow oracles: all bins of a key, and a limiter in memory. */
import fc from "fast-check";
import { memoryRateLimiter, parsePolicy } from "sluice";
import { describe, expect, it } from "vitest";
import { fakeClock } from "../testing/fake-clock.ts";
import { type Random, randomFrom } from "../testing/random.ts";
import type { TrafficSample } from "./recorded-traffic.ts";
import { type Suggestion, type SuggestOptions, suggestPolicy } from "./suggest-policy.ts";

const START = 1_800_000_000_000;

describe("oracles", () => {
  it("agree on random traffic in any order", () => {
    fc.assert(
      fc.property(
        fc.integer(),
        fc.constantFrom(1, 250, 1000, 60_000),
        fc.constantFrom("busiest" as const, 0.5, 0.9),
        fc.constantFrom(0.3, 1, 2),
        (seed, binMs, keyQuantile, headroom) => {
          const samples = randomTraffic(randomFrom(seed));
          const options = { binMs, keyQuantile, headroom };
          const suggestion = suggestPolicy(samples, options);
          expect(suggestion.evidence).toMatchObject(slowEvidence(samples, options));
          expect(suggestion.suggested).toBeDefined();
          for (const candidate of suggestion.candidates)
            expect(candidate).toEqual(slowReplay(samples, candidate.policy));
          checkPolicy(suggestion, options);
        },
      ),
      { numRuns: 40 },
    );
  });

  it("agree that the order of keys makes no difference", () => {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const samples = randomTraffic(randomFrom(seed));
        const byKey = samples.toSorted((a, b) => (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
        expect(suggestPolicy(byKey)).toEqual(suggestPolicy(samples));
      }),
      { numRuns: 10 },
    );
  });
});

/** At least 1000 requests of 10 to 15 keys, in random order, with bursts, equal times and fractions of a millisecond. */
function randomTraffic(random: Random): TrafficSample[] {
  const keys = random.whole(10, 15);
  return Array.from({ length: random.whole(1000, 1500) }, (_, i) => {
    const key = `key ${i < keys ? i : random.whole(0, random.whole(0, keys - 1))}`;
    const at = START + random.whole(0, 40) * random.pick([1, 40, 1000]) + random.pick([0, 0, 0.5]);
    return { key, at, cost: random.pick([0, 1, 1, 1, 1, 5]) };
  });
}

/** Evidence by counting in a map of all bins, with the definition of the nearest rank. */
function slowEvidence(
  samples: readonly TrafficSample[],
  options: Required<Pick<SuggestOptions, "binMs" | "keyQuantile">>,
) {
  const { binMs, keyQuantile } = options;
  const keys = [...new Set(samples.map(({ key }) => key))];
  const measured = keys.flatMap((key) => {
    const bins = new Map<number, number>();
    for (const sample of samples) {
      const bin = Math.floor(sample.at / binMs);
      if (sample.key === key) bins.set(bin, (bins.get(bin) ?? 0) + (sample.cost ?? 1));
    }
    const sums = [...bins.values()].filter((sum) => sum > 0);
    const requests = samples.filter((sample) => sample.key === key).length;
    if (sums.length === 0) return [];
    return [{ p50: slowQuantile(sums, 50), p99: slowQuantile(sums, 99), max: Math.max(...sums), requests }];
  });
  const sorted = measured.sort((a, b) => a.p99 - b.p99 || a.max - b.max || a.requests - b.requests || a.p50 - b.p50);
  const quantile = keyQuantile === "busiest" ? 100 : keyQuantile * 100;
  // The smallest rank that is at least the share of the keys, in whole numbers.
  const rank = sorted.findIndex((_, i) => (i + 1) * 100 >= Math.round(quantile) * sorted.length);
  const { p50, p99, max } = sorted[rank] as (typeof sorted)[number];
  return { requests: samples.length, keys: keys.length, p50, p99, max };
}

/** The smallest value that at least `percent` of all values don't exceed. */
function slowQuantile(values: readonly number[], percent: number): number {
  const enough = (value: number) => values.filter((other) => other <= value).length * 100 >= percent * values.length;
  return Math.min(...values.filter(enough));
}

/** Replays all samples in the order of time against a limiter in memory. */
function slowReplay(samples: readonly TrafficSample[], policy: string): Suggestion["candidates"][number] {
  const clock = fakeClock(START);
  const limiter = memoryRateLimiter(parsePolicy(policy), { clock });
  const deniedKeys: string[] = [];
  for (const { key, at, cost } of samples.toSorted((a, b) => Math.floor(a.at) - Math.floor(b.at))) {
    clock.advance(Math.floor(at) - clock.now());
    if (!limiter.consumeSync(key, cost).allowed) deniedKeys.push(key);
  }
  return {
    policy: policy as Suggestion["candidates"][number]["policy"],
    denied: deniedKeys.length,
    deniedShare: deniedKeys.length / samples.length,
    keysDenied: new Set(deniedKeys).size,
  };
}

/** The policy refills at least the target, and at most a tenth more. */
function checkPolicy(
  { suggested, evidence, candidates }: Suggestion,
  options: { binMs: number; headroom: number },
): void {
  const { tokensPerSecond, capacity } = memoryRateLimiter(parsePolicy(suggested as string)).getPolicy();
  const target = (evidence.p99 * options.headroom * 1000) / options.binMs;
  expect(tokensPerSecond).toBeGreaterThanOrEqual(target * (1 - 1e-9));
  expect(tokensPerSecond).toBeLessThanOrEqual(target * 1.1 * (1 + 1e-9));
  expect(capacity).toBeGreaterThanOrEqual(evidence.max);
  expect(candidates.map(({ policy }) => policy)).toContain(suggested);
}
