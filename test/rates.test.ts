/** Tests how rates, durations and names of policies are compiled to whole numbers. */
import fc from "fast-check";
import { fixedWindow, leakyBucket, type Policy, type RateText, slidingLog, slidingWindow, tokenBucket } from "sluice";
import { compilePolicy } from "sluice/algorithms";
import { describe, expect, test } from "vitest";
import { bucketRule } from "./model.ts";
import { asSluiceError, rejectionOf, thrownBy } from "./policy-errors.ts";

const NAMES = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"] as const;
const WINDOWS = ["fixed-window", "sliding-window", "sliding-log"] as const;
const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

describe("a rate", () => {
  // In tokens per millisecond.
  test.each<[number | RateText, number, number]>([
    [0.1, 1, 10_000],
    [3 / 3600, 1, 1_200_000],
    [12345.67, 1_234_567, 100_000],
    [1, 1, 1000],
    [10, 1, 100],
    [5, 1, 200],
    [0.5, 1, 2000],
    [1 / 3, 1, 3000],
    [2 / 3, 1, 1500],
    [1 / 86_400, 1, 86_400_000],
    [1e6, 1000, 1],
    [1e-6, 1, 1_000_000_000],
    ["3/h", 1, 1_200_000],
    ["10/s", 1, 100],
    ["7/3s", 7, 3000],
    ["100/15m", 1, 9000],
    ["1/30d", 1, 2_592_000_000],
    ["1000/7ms", 1000, 7],
    ["4294967291/2147483648ms", 4_294_967_291, 2_147_483_648],
    ["5/999999999999999ms", 5, 999_999_999_999_999],
  ])("of %s is %i tokens every %i ms", (rate, p, q) => {
    const capacity = Math.max(1, Math.ceil(p / q));
    expect(compilePolicy({ capacity, tokensPerSecond: rate })).toMatchObject({
      unitsPerMs: p,
      unitsPerToken: q,
      limit: capacity,
    });
    expect(compilePolicy({ algorithm: "leaky-bucket", capacity, leaksPerSecond: rate })).toMatchObject({
      unitsPerMs: p,
      unitsPerToken: q,
    });
  });

  test("given as any double is exact as a reduced fraction, or rejected with its option", () => {
    const doubles = fc.noBias(fc.maxSafeNat()).map((at) => 1e-6 * 1e12 ** (at / Number.MAX_SAFE_INTEGER));
    let accepted = 0;
    fc.assert(
      fc.property(doubles, (rate) => {
        const policy = { capacity: Math.ceil(rate / 1000), tokensPerSecond: rate };
        let compiled: ReturnType<typeof compilePolicy>;
        try {
          compiled = compilePolicy(policy);
        } catch (error) {
          // Many doubles above some hundreds are ratios of numbers that are too large for exact products.
          expect(asSluiceError(error)).toMatchObject({
            code: "out-of-range",
            option: "tokensPerSecond",
            received: rate,
          });
          return;
        }
        accepted++;
        const { unitsPerMs, unitsPerToken: q } = compiled;
        expect((unitsPerMs * 1000) / q).toBe(rate);
        expect(compiled.resolved.tokensPerSecond).toBe(rate);
        expect(greatestCommonDivisor(BigInt(unitsPerMs), BigInt(q))).toBe(1n);
      }),
      { numRuns: 2000 },
    );
    expect(accepted).toBeGreaterThan(1000);
  });

  test("given as the double of a fraction or decimal is that fraction", () => {
    const fractions = fc.tuple(fc.integer({ min: 1, max: 1_000_000 }), fc.integer({ min: 1, max: 100_000 }));
    const decimals = fc
      .tuple(fc.integer({ min: 1, max: 999_999_999 }), fc.integer({ min: 0, max: 6 }))
      .filter(([digits, places]) => digits / 10 ** places <= 1e6)
      .map(([digits, places]) => [digits, 10 ** places] as const);
    fc.assert(
      fc.property(fc.oneof(fractions, decimals), ([tokens, seconds]) => {
        const {
          limit,
          unitsPerMs,
          unitsPerToken: q,
        } = compilePolicy({ capacity: 1000, tokensPerSecond: tokens / seconds });
        const rule = bucketRule("token-bucket", 1000n, BigInt(tokens), BigInt(seconds) * 1000n);
        expect({ limit, p: BigInt(unitsPerMs), q: BigInt(q) }).toEqual({ limit: 1000, p: rule.p, q: rule.q });
      }),
      { numRuns: 2000 },
    );
  });

  /** Checks that a rate text compiles to its exact ratio or is rejected. */
  function checkText(count: number, n: number, unit: keyof typeof UNIT_MS): void {
    const everyMs = BigInt(n) * BigInt(UNIT_MS[unit]);
    const rule = bucketRule("token-bucket", 1n, BigInt(count), everyMs);
    const capacity = Number((rule.p + rule.q - 1n) / rule.q);
    const resolve = () => compilePolicy({ capacity, tokensPerSecond: `${count}/${n}${unit}` });
    const isExact = rule.p <= 2n ** 32n && rule.q <= 2n ** 53n - 1n && rule.q <= 2n ** 52n * rule.p;
    // A window that is not a safe integer may be rejected for any ratio.
    const mayReject = !isExact || everyMs >= 2n ** 53n;
    const error = thrownBy(resolve);
    if (mayReject && error) expect(asSluiceError(error).code).toBe("out-of-range");
    else expect(resolve()).toMatchObject({ unitsPerMs: Number(rule.p), unitsPerToken: Number(rule.q) });
    if (!isExact) expect(error).toBeDefined();
  }

  test("given as text is exact or rejected, for numbers of any length", () => {
    const counts = fc.oneof(fc.integer({ min: 1, max: 100_000 }), fc.integer({ min: 1, max: 999_999_999_999_999 }));
    const units = fc.constantFrom(...(Object.keys(UNIT_MS) as (keyof typeof UNIT_MS)[]));
    fc.assert(fc.property(counts, counts, units, checkText), { numRuns: 2000 });
  });

  test("is not rounded when its interval in milliseconds is not a safe integer", () => {
    checkText(1_415_577_600_000, 999_999_999_999_999, "d");
  });
});

describe("durations", () => {
  test.each([
    ["250ms", 250],
    ["1s", 1000],
    ["5m", 300_000],
    ["1h", 3_600_000],
    ["30d", 2_592_000_000],
    [1500, 1500],
    [1, 1],
  ] as const)("%s is %i ms", (windowMs, ms) => {
    for (const algorithm of WINDOWS) {
      const compiled = compilePolicy({ algorithm, limit: 3, windowMs });
      expect(compiled).toMatchObject({ limit: 3, windowMs: ms });
      expect(compiled.resolved).toEqual({
        algorithm,
        name: compiled.name,
        capacity: 3,
        limit: 3,
        windowMs: ms,
        tokensPerSecond: 3000 / ms,
      });
    }
  });

  test("may have a space before the unit", () => {
    expect(compilePolicy({ algorithm: "fixed-window", limit: 3, windowMs: "1 day" }).windowMs).toBe(86_400_000);
    expect(compilePolicy({ algorithm: "fixed-window", limit: 3, windowMs: "30 days" }).windowMs).toBe(2_592_000_000);
  });

  test.each([
    "",
    "s",
    "1",
    "1.5s",
    "1e3ms",
    "-1s",
    "+1s",
    "1  s",
    " 1s",
    "1s ",
    "1w",
    "1S",
    "1ms1s",
    "0x1s",
    "12345678901234567ms",
  ])("%j is rejected", (windowMs) => {
    for (const algorithm of WINDOWS) {
      expect(rejectionOf({ algorithm, limit: 3, windowMs })).toMatchObject({
        code: "invalid-option",
        option: "windowMs",
        received: windowMs,
      });
    }
  });

  test.each([
    "",
    "10",
    "10/",
    "/s",
    "0/s",
    "10/0s",
    "-1/s",
    "1.5/s",
    "1e3/s",
    "10/w",
    " 10/s",
    "10/s ",
    "10 / s",
    "10/s/s",
    "10/S",
  ])("%j is rejected as a rate", (rate) => {
    expect(rejectionOf({ capacity: 3, tokensPerSecond: rate })).toMatchObject({
      code: "invalid-option",
      option: "tokensPerSecond",
      received: rate,
    });
    expect(rejectionOf({ algorithm: "leaky-bucket", capacity: 3, leaksPerSecond: rate })).toMatchObject({
      code: "invalid-option",
      option: "leaksPerSecond",
      received: rate,
    });
    for (const helper of [tokenBucket, leakyBucket, fixedWindow, slidingWindow, slidingLog]) {
      const error = thrownBy(() => compilePolicy(helper(rate as RateText)));
      expect(asSluiceError(error)).toMatchObject({ code: "invalid-option", received: rate });
    }
  });
});

describe("the name of a policy", () => {
  test.each<[Policy, string]>([
    [{ capacity: 10, tokensPerSecond: 5 }, "5/s burst 10"],
    [{ capacity: 3, tokensPerSecond: "3/h" }, "3/h burst 3"],
    [{ capacity: 3, tokensPerSecond: 0.1 }, "6/m burst 3"],
    [{ capacity: 1, tokensPerSecond: "1/30d" }, "1/2592000000ms burst 1"],
    [{ capacity: 1000, tokensPerSecond: 1e6 }, "1000000/s burst 1000"],
    [{ algorithm: "leaky-bucket", capacity: 3, leaksPerSecond: 10 }, "10/s queue 3"],
    [fixedWindow("100/m"), "100/1m fixed"],
    [slidingWindow("100/15m"), "100/15m sliding"],
    [slidingLog("5/1500ms"), "5/1500ms log"],
    [fixedWindow("1000/24h"), "1000/1d fixed"],
    [{ capacity: 10, tokensPerSecond: 5, name: "api" }, "api"],
  ])("of %j is %s", (policy, name) => {
    const compiled = compilePolicy(policy);
    expect([compiled.name, compiled.resolved.name]).toEqual([name, name]);
  });

  /** The parts of a policy, from a small set: equal policies occur often. */
  const parts = fc.record({
    algorithm: fc.constantFrom(...NAMES),
    limit: fc.constantFrom(1, 2, 3, 5, 6, 10, 30, 60, 100),
    count: fc.constantFrom(1, 2, 3, 5, 6, 10, 30, 60, 100),
    n: fc.constantFrom(1, 2, 5, 6, 7, 10, 15, 24, 30, 60, 100, 1000),
    unit: fc.constantFrom(...(Object.keys(UNIT_MS) as (keyof typeof UNIT_MS)[])),
  });
  type Parts = typeof parts extends fc.Arbitrary<infer T> ? T : never;

  /** A canonical text of a policy, computed independently of the library. */
  function identity({ algorithm, limit, count, n, unit }: Parts): string {
    const everyMs = BigInt(n) * BigInt(UNIT_MS[unit]);
    if (algorithm !== "token-bucket" && algorithm !== "leaky-bucket") return `${algorithm} ${limit} ${everyMs}`;
    const { p, q } = bucketRule(algorithm, BigInt(limit), BigInt(count), everyMs);
    return `${algorithm} ${limit} ${p} ${q}`;
  }

  /** Every way to write one policy. */
  function spellingsOf({ algorithm, limit, count, n, unit }: Parts): Policy[] {
    const everyMs = n * UNIT_MS[unit];
    const text: RateText = `${count}/${n}${unit}`;
    const perSecond = (count * 1000) / everyMs;
    const ratesOf = [text, `${count}/${everyMs}ms` as RateText, perSecond];
    if (algorithm === "token-bucket") {
      return [
        ...ratesOf.map((tokensPerSecond) => ({ capacity: limit, tokensPerSecond })),
        { algorithm, capacity: limit, tokensPerSecond: text },
        tokenBucket(text, { burst: limit }),
        tokenBucket({ capacity: limit, tokensPerSecond: perSecond }),
      ];
    }
    if (algorithm === "leaky-bucket") {
      return [
        ...ratesOf.map((leaksPerSecond) => ({ algorithm, capacity: limit, leaksPerSecond })),
        leakyBucket(text, { burst: limit }),
        leakyBucket({ capacity: limit, leaksPerSecond: perSecond }),
      ];
    }
    const helper = { "fixed-window": fixedWindow, "sliding-window": slidingWindow, "sliding-log": slidingLog }[
      algorithm
    ];
    return [
      { algorithm, limit, windowMs: everyMs } as Policy,
      { algorithm, limit, windowMs: `${n}${unit}` } as Policy,
      helper(`${limit}/${n}${unit}`),
      helper(`${limit}/${everyMs}ms`),
      helper({ limit, windowMs: everyMs }),
    ];
  }

  const wide = (given: Parts) => given.count <= given.limit * given.n * UNIT_MS[given.unit];

  test("is the same for every way to write the policy as an object", () => {
    fc.assert(
      fc.property(parts.filter(wide), (given) => {
        const compiled = spellingsOf(given).map((policy) => compilePolicy(policy));
        // The name of a text is the text.
        const names = spellingsOf(given).map((policy) => compilePolicy({ ...policy }).name);
        expect(new Set(names)).toEqual(new Set(names.slice(0, 1)));
        expect(new Set(compiled.map(({ qualifiedName }) => qualifiedName)).size).toBe(1);
        // The name is sent in headers, so it must match the pattern of given names.
        expect(names[0]).toMatch(/^[ -~]{1,64}$/);
      }),
      { numRuns: 2000 },
    );
  });

  test("differs from the name of every other policy", () => {
    fc.assert(
      fc.property(fc.array(parts.filter(wide), { minLength: 2, maxLength: 40 }), (list) => {
        const named = new Map<string, string>();
        for (const given of list) {
          const [policy] = spellingsOf(given) as [Policy];
          const { name } = compilePolicy(policy);
          expect(named.get(name) ?? identity(given), name).toBe(identity(given));
          named.set(name, identity(given));
        }
        expect(named.size).toBe(new Set(list.map(identity)).size);
      }),
      { numRuns: 1000 },
    );
  });

  test("and its prefix never collide with those of another policy", () => {
    const labels = fc.string({ minLength: 1, maxLength: 4, unit: fc.constantFrom("1", "2", ":", "a") });
    fc.assert(
      fc.property(labels, labels, labels, labels, (name, prefix, otherName, otherPrefix) => {
        const bucket = (policy: { name: string; prefix?: string }) =>
          compilePolicy({ capacity: 1, tokensPerSecond: 1, ...policy }).id;
        const same = name === otherName && prefix === otherPrefix;
        expect(bucket({ name, prefix }) === bucket({ name: otherName, prefix: otherPrefix })).toBe(same);
        expect(bucket({ name })).not.toBe(bucket({ name: otherName, prefix }));
      }),
      { numRuns: 2000 },
    );
  });
});

function greatestCommonDivisor(a: bigint, b: bigint): bigint {
  return b === 0n ? a : greatestCommonDivisor(b, a % b);
}
