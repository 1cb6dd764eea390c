/** Tests what is suggested for known traffic, and the warnings. */
import { parsePolicy } from "sluice";
import { describe, expect, it } from "vitest";
import type { TrafficSample } from "./recorded-traffic.ts";
import { type SuggestOptions, suggestPolicy } from "./suggest-policy.ts";

const START = 1_800_000_000_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;

/** Requests of one key in one second, spread over it. */
function second(key: string, at: number, count: number): TrafficSample[] {
  return Array.from({ length: count }, (_, i) => ({ key, at: at + Math.floor((i * 1000) / count) }));
}

/** Nine users with one request every hour for the given days: 216 requests a day. */
function users(days: number): TrafficSample[] {
  return Array.from({ length: 9 }, (_, user) =>
    Array.from({ length: 24 * days }, (_, hour) => ({ key: `user:${user}`, at: START + hour * HOUR + user })),
  ).flat();
}

/** A partner that is active in 200 seconds of each day: with 8 requests, but in one second of each day with 12. */
function partner(days: number): TrafficSample[] {
  return Array.from({ length: 200 * days }, (_, i) => {
    const at = START + Math.floor(i / 200) * DAY + (i % 200) * 60_000;
    return second("partner", at, i % 200 === 0 ? 12 : 8);
  }).flat();
}

/** Ten keys with `bins` active bins of each of the given sums. */
function tenKeys(sums: readonly number[], binMs: number): TrafficSample[] {
  return sums.flatMap((sum, key) =>
    Array.from({ length: 150 }, (_, bin) =>
      Array.from({ length: sum }, () => ({ key: `key ${key}`, at: START + bin * 2 * binMs })),
    ).flat(),
  );
}

describe("a partner with a p99 of 8 requests per second over 7 days (seed 002)", () => {
  const suggestion = suggestPolicy([...users(7), ...partner(7), { key: "user:0", at: START + 7 * DAY }]);

  it("is suggested 16/s and a burst from 80 to 160", () => {
    expect(suggestion.suggested).toBe("16/s burst 120");
    expect(suggestion.candidates.map(({ policy }) => policy)).toEqual([
      "16/s burst 80",
      "16/s burst 120",
      "16/s burst 160",
    ]);
  });

  it("would not have been denied", () => {
    for (const { denied, deniedShare, keysDenied } of suggestion.candidates) {
      expect([denied, deniedShare, keysDenied]).toEqual([0, 0, 0]);
    }
  });

  it("is named by a tag", () => {
    expect(suggestion.reason).toMatch(/^key [0-9a-f]{8} made 8\/s at p99$/);
    expect(JSON.stringify(suggestion)).not.toContain("partner");
  });

  it("is the evidence", () => {
    expect(suggestion.evidence).toEqual({ requests: 12_741, keys: 10, days: 7, p50: 8, p99: 8, max: 12 });
    expect(suggestion.warnings).toEqual(["one key is 88% of all requests"]);
  });
});

describe("too little data", () => {
  it("suggests nothing below 1000 requests", () => {
    const samples = tenKeys(new Array(10).fill(1), 1000).slice(0, 999);
    const { suggested, candidates, reason, evidence } = suggestPolicy([...samples]);
    expect([suggested, candidates]).toEqual([undefined, []]);
    expect(reason).toBe("999 requests of 7 keys are too few; record at least 1000 requests of 10 keys");
    expect(evidence).toMatchObject({ requests: 999, keys: 7, p50: 1, p99: 1, max: 1 });
  });

  it("suggests nothing below 10 keys, and something with 10", () => {
    expect(suggestPolicy(tenKeys(new Array(9).fill(1), 1000)).suggested).toBeUndefined();
    expect(suggestPolicy(tenKeys(new Array(10).fill(1), 1000)).suggested).toBe("2/s burst 15");
  });

  it("suggests nothing without samples", () => {
    expect(suggestPolicy([])).toEqual({
      reason: "0 requests of 0 keys are too few; record at least 1000 requests of 10 keys",
      candidates: [],
      evidence: { requests: 0, keys: 0, days: 0, p50: 0, p99: 0, max: 0 },
      warnings: ["less than 0.1 days of 7"],
    });
  });

  it("suggests nothing if all requests are free", () => {
    const samples = tenKeys(new Array(10).fill(1), 1000).map((sample) => ({ ...sample, cost: 0 }));
    expect(suggestPolicy(samples)).toMatchObject({ reason: "no request has a cost", candidates: [] });
  });
});

describe("rates", () => {
  const sums = [...new Array(9).fill(1), 3];

  it.each<[SuggestOptions, string]>([
    [{}, "6/s burst 45"],
    [{ headroom: 1 }, "3/s burst 23"],
    // 3.6/s is 4/s in seconds, which would be 11% more.
    [{ headroom: 1.2 }, "216/m burst 27"],
    [{ headroom: 0.1 }, "18/m burst 3"],
    [{ headroom: 10.05 }, "31/s burst 233"],
    [{ binMs: 500 }, "12/s burst 90"],
    [{ binMs: 60_000 }, "6/m burst 3"],
    [{ binMs: HOUR }, "6/h burst 3"],
    [{ binMs: HOUR, headroom: 1 }, "3/h burst 3"],
    [{ binMs: DAY }, "6/d burst 3"],
    [{ binMs: DAY, headroom: 0.1 }, "1/d burst 3"],
  ])("with %j are %s", (options, expected) => {
    const { suggested } = suggestPolicy(tenKeys(sums, options.binMs ?? 1000), options);
    expect(suggested).toBe(expected);
  });

  it("are not rounded up because of floating-point errors", () => {
    // 1.1 x 50 is 55.00000000000001.
    const samples = tenKeys([...new Array(9).fill(1), 50], 1000);
    expect(suggestPolicy(samples, { headroom: 1.1 }).suggested).toBe("55/s burst 413");
  });

  it("of millions of units are valid policies", () => {
    const samples = tenKeys(new Array(10).fill(1), 1000).map((sample) => ({ ...sample, cost: 2_000_000_001 }));
    const { suggested } = suggestPolicy(samples);
    expect(suggested).toBe("4000001000/s burst 30000007500");
    expect(parsePolicy(suggested as string)).toMatchObject({ capacity: 30_000_007_500 });
  });

  it("that no policy can have are not suggested", () => {
    const samples = tenKeys(new Array(10).fill(2), 1).map((sample) => ({ ...sample, cost: 2 ** 31 - 1 }));
    const { suggested, reason } = suggestPolicy(samples, { binMs: 1 });
    expect(suggested).toBeUndefined();
    expect(reason).toMatch(/^key [0-9a-f]{8} made 4294967294\/ms at p99, which is more than a policy can allow$/);
  });
});

describe("the capacity", () => {
  it.each<[SuggestOptions["burst"], string[]]>([
    [
      ["5s", "10s"],
      ["10/s burst 50", "10/s burst 75", "10/s burst 100"],
    ],
    [
      ["1s", "1m"],
      ["10/s burst 10", "10/s burst 305", "10/s burst 600"],
    ],
    [[3000, 3000], ["10/s burst 30"]],
    [
      ["100ms", "200ms"],
      ["10/s burst 1", "10/s burst 2", "10/s burst 5"],
    ],
  ])("with burst %j is one of %j", (burst, expected) => {
    const { candidates } = suggestPolicy(tenKeys(new Array(10).fill(5), 1000), burst ? { burst } : {});
    expect(candidates.map(({ policy }) => policy)).toEqual(expected);
  });

  it("is at least the largest bin, also of a key with a lower p99", () => {
    const samples = tenKeys([...new Array(9).fill(4), 5], 1000);
    const { suggested, candidates } = suggestPolicy([...samples, ...second("key 0", START + DAY, 300)]);
    expect(suggested).toBe("10/s burst 300");
    expect(candidates.map(({ policy }) => policy)).toEqual(["10/s burst 50", "10/s burst 100", "10/s burst 300"]);
    expect(candidates.map(({ keysDenied }) => keysDenied)).toEqual([1, 1, 0]);
  });

  it("counts cost and not requests", () => {
    const samples = tenKeys(new Array(10).fill(1), 1000).map((sample) => ({ ...sample, cost: 40 }));
    expect(suggestPolicy(samples)).toMatchObject({ suggested: "80/s burst 600", evidence: { p99: 40, max: 40 } });
  });
});

describe("keyQuantile", () => {
  const samples = tenKeys([1, 2, 3, 4, 5, 6, 7, 8, 9, 100], 1000);

  it.each<[SuggestOptions["keyQuantile"], number]>([
    ["busiest", 100],
    [1, 100],
    [0.95, 100],
    [0.9, 9],
    [0.5, 5],
    [0.001, 1],
  ])("%s sizes for the key with a p99 of %d", (keyQuantile, p99) => {
    const { evidence, reason } = suggestPolicy(samples, keyQuantile ? { keyQuantile } : {});
    expect(evidence.p99).toBe(p99);
    if (typeof keyQuantile === "number")
      expect(reason).toContain(`, at quantile ${keyQuantile} of 10 keys, made ${p99}/s`);
  });

  it("is the nearest rank, without floating-point errors", () => {
    // 0.07 x 100 is 7.000000000000001.
    const samples = tenKeys(
      Array.from({ length: 100 }, (_, key) => key + 1),
      1000,
    );
    expect(suggestPolicy(samples, { keyQuantile: 0.07 }).evidence.p99).toBe(7);
  });

  it("chooses one of several equal keys, whatever the order of the samples", () => {
    const equal = tenKeys(new Array(10).fill(3), 1000);
    expect(suggestPolicy(equal.toReversed())).toEqual(suggestPolicy(equal));
  });

  it("leaves out the bursts of busier keys, and reports what they would have been denied", () => {
    const { suggested, candidates, warnings } = suggestPolicy(samples, { keyQuantile: 0.9, headroom: 1 });
    expect(suggested).toBe("9/s burst 68");
    expect(candidates[1]).toMatchObject({ keysDenied: 1 });
    const { denied = 0, deniedShare = 0 } = candidates[1] ?? {};
    expect(denied).toBeGreaterThan(0);
    const share = Number((deniedShare * 100).toPrecision(2));
    expect(warnings).toContain(`"9/s burst 68" would have denied ${denied} requests (${share}%) of 1 keys`);
  });
});

describe("warnings", () => {
  it.each([
    [2.1, ["2.1 days of 7"]],
    [6.9, ["6.9 days of 7"]],
    // An hour less than seven days is enough: logs don't start with a request.
    [6.96, []],
    [7, []],
  ])("of %d days are %j", (days, expected) => {
    const samples = tenKeys(new Array(10).fill(1), 1000);
    expect(suggestPolicy([...samples, { key: "key 0", at: START + days * DAY }]).warnings).toEqual(expected);
  });

  it("include a key with more than half of all requests", () => {
    const samples = tenKeys([...new Array(9).fill(1), 14], 1000);
    expect(suggestPolicy(samples).warnings).toContain("one key is 60% of all requests");
    expect(suggestPolicy(tenKeys([...new Array(9).fill(1), 9], 1000)).warnings.join()).not.toContain("one key");
  });

  it("include a p99 that is a maximum", () => {
    const samples = tenKeys(new Array(10).fill(1), 1000);
    const { warnings } = suggestPolicy([...samples, ...second("burst", START, 50)]);
    expect(warnings).toContainEqual(
      expect.stringMatching(/^key [0-9a-f]{8} was active in only 1 bins, so its p99 is its maximum$/),
    );
  });

  it("include times in seconds", () => {
    const samples = tenKeys(new Array(10).fill(1), 1000).map((sample) => ({ ...sample, at: sample.at / 1000 }));
    expect(suggestPolicy(samples).warnings).toContain(
      "all requests are dated before 1974; `at` is in milliseconds, not seconds",
    );
  });
});
