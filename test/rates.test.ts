/** Rates, durations and policies as users write them: what they come to in whole numbers, and what is refused. */
import fc from "fast-check";
import {
  type AlgorithmName,
  createLimiter,
  fixedWindow,
  leakyBucket,
  memoryRateLimiter,
  type Policy,
  type RateText,
  SluiceError,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "sluice";
import { compilePolicy } from "sluice/algorithms";
import { describe, expect, test } from "vitest";
import { bucketRule } from "./model.ts";

const NAMES = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"] as const;
const WINDOWS = ["fixed-window", "sliding-window", "sliding-log"] as const;
const UNIT_MS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

describe("a rate is a ratio of whole numbers", () => {
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
  ])("%s is %i tokens every %i ms", (rate, p, q) => {
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

  test("any double is taken for exactly itself, in lowest terms, or refused by name", () => {
    const doubles = fc.noBias(fc.maxSafeNat()).map((at) => 1e-6 * 1e12 ** (at / Number.MAX_SAFE_INTEGER));
    let accepted = 0;
    fc.assert(
      fc.property(doubles, (rate) => {
        const policy = { capacity: Math.ceil(rate / 1000), tokensPerSecond: rate };
        let compiled: ReturnType<typeof compilePolicy>;
        try {
          compiled = compilePolicy(policy);
        } catch (error) {
          // Many doubles above some hundreds are only ratios of numbers too large for exact products.
          expect(refusalOf(error)).toMatchObject({ code: "out-of-range", option: "tokensPerSecond", received: rate });
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

  test("a double that a person wrote as a fraction or a decimal is that fraction", () => {
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

  /** The ratio that the text means, or a refusal of it; never another ratio. */
  function checkText(count: number, n: number, unit: keyof typeof UNIT_MS): void {
    const everyMs = BigInt(n) * BigInt(UNIT_MS[unit]);
    const rule = bucketRule("token-bucket", 1n, BigInt(count), everyMs);
    const capacity = Number((rule.p + rule.q - 1n) / rule.q);
    const resolve = () => compilePolicy({ capacity, tokensPerSecond: `${count}/${n}${unit}` });
    const isExact = rule.p <= 2n ** 32n && rule.q <= 2n ** 53n - 1n && rule.q <= 2n ** 52n * rule.p;
    // A window that is itself no exact number may be refused whatever the ratio comes to.
    const mayRefuse = !isExact || everyMs >= 2n ** 53n;
    const error = thrownBy(resolve);
    if (mayRefuse && error) expect(refusalOf(error).code).toBe("out-of-range");
    else expect(resolve()).toMatchObject({ unitsPerMs: Number(rule.p), unitsPerToken: Number(rule.q) });
    if (!isExact) expect(error).toBeDefined();
  }

  test("a rate in text is exact or refused, however long", () => {
    const counts = fc.oneof(fc.integer({ min: 1, max: 100_000 }), fc.integer({ min: 1, max: 999_999_999_999_999 }));
    const units = fc.constantFrom(...(Object.keys(UNIT_MS) as (keyof typeof UNIT_MS)[]));
    fc.assert(fc.property(counts, counts, units, checkText), { numRuns: 2000 });
  });

  test("a rate over so many days that their milliseconds are no exact number is not rounded", () => {
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

  test.each([
    "",
    "s",
    "1",
    "1.5s",
    "1e3ms",
    "-1s",
    "+1s",
    "1 s",
    " 1s",
    "1s ",
    "1w",
    "1S",
    "1ms1s",
    "0x1s",
    "12345678901234567ms",
  ])("%j is refused", (windowMs) => {
    for (const algorithm of WINDOWS) {
      expect(refusal({ algorithm, limit: 3, windowMs })).toMatchObject({
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
  ])("%j is refused as a rate", (rate) => {
    expect(refusal({ capacity: 3, tokensPerSecond: rate })).toMatchObject({
      code: "invalid-option",
      option: "tokensPerSecond",
      received: rate,
    });
    expect(refusal({ algorithm: "leaky-bucket", capacity: 3, leaksPerSecond: rate })).toMatchObject({
      code: "invalid-option",
      option: "leaksPerSecond",
      received: rate,
    });
    for (const helper of [tokenBucket, leakyBucket, fixedWindow, slidingWindow, slidingLog]) {
      const error = thrownBy(() => compilePolicy(helper(rate as RateText)));
      expect(refusalOf(error)).toMatchObject({ code: "invalid-option", received: rate });
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
  ])("%j is called %s", (policy, name) => {
    const compiled = compilePolicy(policy);
    expect([compiled.name, compiled.resolved.name]).toEqual([name, name]);
  });

  /** A policy's parts, from a set so small that equal ones come up often. */
  const parts = fc.record({
    algorithm: fc.constantFrom(...NAMES),
    limit: fc.constantFrom(1, 2, 3, 5, 6, 10, 30, 60, 100),
    count: fc.constantFrom(1, 2, 3, 5, 6, 10, 30, 60, 100),
    n: fc.constantFrom(1, 2, 5, 6, 7, 10, 15, 24, 30, 60, 100, 1000),
    unit: fc.constantFrom(...(Object.keys(UNIT_MS) as (keyof typeof UNIT_MS)[])),
  });
  type Parts = typeof parts extends fc.Arbitrary<infer T> ? T : never;

  /** What a policy is, computed apart from the library: equal for equal policies only. */
  function identity({ algorithm, limit, count, n, unit }: Parts): string {
    const everyMs = BigInt(n) * BigInt(UNIT_MS[unit]);
    if (algorithm !== "token-bucket" && algorithm !== "leaky-bucket") return `${algorithm} ${limit} ${everyMs}`;
    const { p, q } = bucketRule(algorithm, BigInt(limit), BigInt(count), everyMs);
    return `${algorithm} ${limit} ${p} ${q}`;
  }

  /** One policy in every way that it can be written. */
  function writtenOut({ algorithm, limit, count, n, unit }: Parts): Policy[] {
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

  test("is the same however the policy is written", () => {
    fc.assert(
      fc.property(parts.filter(wide), (given) => {
        const names = writtenOut(given).map((policy) => compilePolicy(policy).name);
        expect(new Set(names)).toEqual(new Set(names.slice(0, 1)));
        // It goes into headers, where a given name would have to pass this as well.
        expect(names[0]).toMatch(/^[ -~]{1,64}$/);
      }),
      { numRuns: 2000 },
    );
  });

  test("is never that of another policy", () => {
    fc.assert(
      fc.property(fc.array(parts.filter(wide), { minLength: 2, maxLength: 40 }), (list) => {
        const named = new Map<string, string>();
        for (const given of list) {
          const [policy] = writtenOut(given) as [Policy];
          const { name } = compilePolicy(policy);
          expect(named.get(name) ?? identity(given), name).toBe(identity(given));
          named.set(name, identity(given));
        }
        expect(named.size).toBe(new Set(list.map(identity)).size);
      }),
      { numRuns: 1000 },
    );
  });

  test("and its prefix never run together with those of another", () => {
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

/** A right policy of every algorithm, as an object that tests spoil. */
const RIGHT: Record<AlgorithmName, Record<string, unknown>> = {
  "token-bucket": { algorithm: "token-bucket", capacity: 10, tokensPerSecond: 5 },
  "leaky-bucket": { algorithm: "leaky-bucket", capacity: 10, leaksPerSecond: 5 },
  "fixed-window": { algorithm: "fixed-window", limit: 10, windowMs: 1000 },
  "sliding-window": { algorithm: "sliding-window", limit: 10, windowMs: 1000 },
  "sliding-log": { algorithm: "sliding-log", limit: 10, windowMs: 1000 },
};
const MEMBERS = ["capacity", "tokensPerSecond", "leaksPerSecond", "limit", "windowMs"] as const;

describe("what is refused", () => {
  const wrong = [Number.NaN, Infinity, -Infinity, -1, -0.5, "5", "", null, 0, -0, true, false, 5n, [5], {}, () => 5];

  for (const name of NAMES) {
    for (const option of MEMBERS.filter((member) => member in RIGHT[name])) {
      const isRate = option.endsWith("PerSecond");

      test.each(each([...wrong, ...(isRate ? [] : [0.5, 1.5, 10.000001])]))(`${name}: ${option} of %s`, (value) => {
        const error = refusal({ ...RIGHT[name], [option]: value });
        expect(error).toMatchObject({ code: "invalid-option", option, received: value });
        expect(error.expected).toMatch(isRate ? /number > 0|rate such as/ : /whole number|milliseconds/);
        expect(error.message).toContain(`${option} must be ${error.expected}, but received `);
        expect(error.message).toMatch(/\. See docs\/errors\.md#invalid-option$/);
      });

      test(`${name}: no ${option} at all`, () => {
        const { [option]: _left, ...rest } = RIGHT[name];
        for (const policy of [rest, { ...rest, [option]: undefined }]) {
          const error = refusal(policy);
          expect(error).toMatchObject({ code: "invalid-option", option, received: undefined });
          expect(error.message).toContain(`${option} must be ${error.expected}, but received undefined.`);
        }
      });
    }

    test.each(MEMBERS.filter((member) => !(member in RIGHT[name])))(
      `${name}: %s, which belongs to another`,
      (option) => {
        const error = refusal({ ...RIGHT[name], [option]: 5 });
        expect(error).toMatchObject({ code: "unknown-option", option });
        expect(error.message).toContain(`"${option}" is not an option of a ${name} policy. Use algorithm, `);
        for (const known of Object.keys(RIGHT[name])) expect(error.expected).toContain(known);
        // A member that is there but undefined is what a spread of options leaves behind.
        expect(compilePolicy({ ...RIGHT[name], [option]: undefined } as unknown as Policy).limit).toBe(10);
      },
    );

    test.each(["burst", "Capacity", "window", "max", "tokenPerSecond", "constructor", "__proto__x"])(
      `${name}: the unknown option %s`,
      (option) => {
        expect(refusal({ ...RIGHT[name], [option]: 5 })).toMatchObject({ code: "unknown-option", option });
      },
    );

    test.each([
      ["name", ""],
      ["name", "x".repeat(65)],
      ["name", "caf\u00e9"],
      ["name", "a\nb"],
      ["name", 5],
      ["name", null],
      ["prefix", ""],
      ["prefix", "x".repeat(65)],
      ["prefix", {}],
      ["share", 1],
      ["share", "yes"],
      ["share", null],
      ["share", true],
    ])(`${name}: %s of %j`, (option, value) => {
      const error = refusal({ ...RIGHT[name], [option]: value });
      expect(error).toMatchObject({ code: "invalid-option", option, received: value });
      expect(error.message).toMatch(new RegExp(`^${option}(: true needs| must be) `));
    });
  }

  test.each(each([null, undefined, 5, "fast", true, [], () => 5]))("%s in place of a policy", (policy) => {
    expect(refusal(policy)).toMatchObject({ code: "invalid-option", received: policy });
  });

  test.each(each(["bucket", "", null, 5, "toString", "__proto__", ["fixed-window"]]))(
    "the algorithm %j",
    (algorithm) => {
      const error = refusal({ algorithm, limit: 10, windowMs: 5 });
      expect(error).toMatchObject({ code: "invalid-option", option: "algorithm", received: algorithm });
      for (const name of NAMES) expect(error.expected).toContain(name);
    },
  );

  test("by every factory alike, before anything is made", () => {
    const policy = { capacity: 0.5, tokensPerSecond: 5 };
    for (const make of [() => memoryRateLimiter(policy), () => createLimiter({ policy })]) {
      expect(refusalOf(thrownBy(make))).toMatchObject({ code: "invalid-option", option: "capacity", received: 0.5 });
    }
  });

  const anyForm = (helper: unknown, ...given: unknown[]) => (helper as (...given: unknown[]) => Policy)(...given);
  test.each<[string, () => Policy, string, string]>([
    ["a burst of 0", () => tokenBucket("10/s", { burst: 0 }), "invalid-option", "burst"],
    ["a burst of null", () => anyForm(tokenBucket, "10/s", { burst: null }), "invalid-option", "burst"],
    ["a broken burst", () => leakyBucket("10/s", { burst: 1.5 }), "invalid-option", "burst"],
    ["a misspelt burst", () => anyForm(tokenBucket, "10/s", { bust: 5 }), "unknown-option", "bust"],
    ["the burst of a window", () => anyForm(fixedWindow, "10/s", { burst: 5 }), "unknown-option", "burst"],
    ["a second limit", () => anyForm(slidingWindow, "10/s", { limit: 5 }), "unknown-option", "limit"],
    ["a list of options", () => anyForm(slidingLog, "10/s", []), "invalid-option", "the options of a rate"],
    ["options that are null", () => anyForm(leakyBucket, "10/s", null), "invalid-option", "the options of a rate"],
    ["a limit of 0", () => fixedWindow({ limit: 0, windowMs: 1 }), "invalid-option", "limit"],
    [
      "options beside the numbers of a bucket",
      () => anyForm(tokenBucket, { capacity: 1, tokensPerSecond: 1 }, { burst: 5 }),
      "unknown-option",
      "options",
    ],
    [
      "options beside the numbers of a window",
      () => anyForm(slidingLog, { limit: 1, windowMs: 1 }, { name: "x" }),
      "unknown-option",
      "options",
    ],
  ])("in the short forms: %s", (_what, make, code, option) => {
    expect(refusalOf(thrownBy(() => compilePolicy(make())))).toMatchObject({ code, option });
  });
});

describe("the edge of what is exact", () => {
  const MOST = Number.MAX_SAFE_INTEGER;
  type Edge = [what: string, option: string, inside: Record<string, unknown>, outside: Record<string, unknown>];
  const edges: Edge[] = [];
  for (const [algorithm, rate] of [
    ["token-bucket", "tokensPerSecond"],
    ["leaky-bucket", "leaksPerSecond"],
  ] as const) {
    const bucket = (capacity: number, perSecond: number | string) => ({ algorithm, capacity, [rate]: perSecond });
    edges.push(
      ["the parts of a bucket", "capacity", bucket(MOST, 2000), bucket(MOST + 1, 2000)],
      ["the parts of a bucket", "capacity", bucket(2_147_483_647, "3/4194304ms"), bucket(2_147_483_648, "3/4194304ms")],
      ["the parts of a bucket", "capacity", bucket(9, "5/999999999999999ms"), bucket(10, "5/999999999999999ms")],
      ["the time to fill", "capacity", bucket(2 ** 52, 1000), bucket(2 ** 52 + 1, 1000)],
      ["the time to fill", "capacity", bucket(4_503_599_627_370, 1), bucket(4_503_599_627_371, 1)],
      ["the time to fill", "capacity", bucket(4, "1/999999999999999ms"), bucket(5, "1/999999999999999ms")],
      ["tokens of one ms", "capacity", bucket(1000, 1e6), bucket(999, 1e6)],
      ["tokens of one ms", "capacity", bucket(143, "1000/7ms"), bucket(142, "1000/7ms")],
      ["the ratio", rate, bucket(2 ** 32, "4294967296/ms"), bucket(2 ** 33, "4294967297/ms")],
      ["a slow rate", rate, bucket(1, 1e-12), bucket(1, 0.999e-12)],
      ["a fast rate", rate, bucket(1e9, 1e12), bucket(1e10, 1.001e12)],
      ["a slow rate", rate, bucket(1, 1), bucket(1, Number.MIN_VALUE)],
      ["a fast rate", rate, bucket(1, 1), bucket(1, Number.MAX_VALUE)],
    );
  }
  const sliding = (limit: number, windowMs: unknown) => ({ algorithm: "sliding-window", limit, windowMs });
  edges.push(
    ["limit x window x 2", "limit", sliding(4_503_599_627_370, 1000), sliding(4_503_599_627_371, 1000)],
    ["limit x window x 2", "limit", sliding(2 ** 52 - 1, 1), sliding(2 ** 52, 1)],
    ["limit x window x 2", "limit", sliding(2 ** 26 - 1, 2 ** 26), sliding(2 ** 26, 2 ** 26)],
    ["limit x window x 2", "limit", sliding(1_737_499, "30d"), sliding(1_737_500, "30d")],
  );
  const fixed = (limit: number) => ({ algorithm: "fixed-window", limit, windowMs: "30d" });
  edges.push(["what is counted", "limit", fixed(MOST), fixed(MOST + 1)]);
  for (const algorithm of WINDOWS) {
    const window = (limit: number, windowMs: unknown) => ({ algorithm, limit, windowMs });
    edges.push(["a long window", "windowMs", window(1, 2 ** 51), window(1, 2 ** 51 + 1)]);
    edges.push(["a long window", "windowMs", window(1, "26062497d"), window(1, "26062498d")]);
  }
  const log = (limit: number) => ({ algorithm: "sliding-log", limit, windowMs: 1000 });
  edges.push(["what is logged", "limit", log(10_000), log(10_001)]);

  test.each(edges)("%s: %s, inside in %j, outside in %j", (_what, option, inside, outside) => {
    const { capacity, limit = capacity } = inside;
    expect(compilePolicy(inside as unknown as Policy).limit).toBe(limit);
    const error = refusal(outside);
    expect(error).toMatchObject({ code: "out-of-range", option });
    expect(error.received).toBeTypeOf(
      typeof outside[option] === "string" && option !== "windowMs" ? "string" : "number",
    );
    expect(error.expected).toMatch(/\d|smaller/);
    expect(error.message).toContain(`${option} must be ${error.expected}, but received `);
  });
});

/** Values as rows of one, so that a list among them stays a list. */
function each<T>(values: readonly T[]): [T][] {
  return values.map((value) => [value]);
}

/** What `compilePolicy` says to a policy that it has to refuse. */
function refusal(policy: unknown): SluiceError {
  return refusalOf(thrownBy(() => compilePolicy(policy as Policy)));
}

/** What was thrown, or nothing. */
function thrownBy(call: () => unknown): unknown {
  try {
    call();
  } catch (error) {
    return error;
  }
  return undefined;
}

function refusalOf(error: unknown): SluiceError {
  expect(error).toBeInstanceOf(SluiceError);
  return error as SluiceError;
}

function greatestCommonDivisor(a: bigint, b: bigint): bigint {
  return b === 0n ? a : greatestCommonDivisor(b, a % b);
}
