/** Tests that invalid policies are rejected with their option, and the range of exact numbers. */
import {
  createLimiter,
  fixedWindow,
  leakyBucket,
  memoryRateLimiter,
  type Policy,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "sluice";
import { compilePolicy } from "sluice/algorithms";
import { describe, expect, test } from "vitest";
import { ERRORS_PAGE } from "../src/base/errors.ts";
import { asSluiceError, rejectionOf, thrownBy } from "./policy-errors.ts";

const NAMES = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"] as const;
const WINDOWS = ["fixed-window", "sliding-window", "sliding-log"] as const;

/** A valid policy of every algorithm. */
const VALID: Record<(typeof NAMES)[number], Record<string, unknown>> = {
  "token-bucket": { algorithm: "token-bucket", capacity: 10, tokensPerSecond: 5 },
  "leaky-bucket": { algorithm: "leaky-bucket", capacity: 10, leaksPerSecond: 5 },
  "fixed-window": { algorithm: "fixed-window", limit: 10, windowMs: 1000 },
  "sliding-window": { algorithm: "sliding-window", limit: 10, windowMs: 1000 },
  "sliding-log": { algorithm: "sliding-log", limit: 10, windowMs: 1000 },
};
const MEMBERS = ["capacity", "tokensPerSecond", "leaksPerSecond", "limit", "windowMs"] as const;

describe("an invalid policy", () => {
  const invalidValues = [
    Number.NaN,
    Infinity,
    -Infinity,
    -1,
    -0.5,
    "5",
    "",
    null,
    0,
    -0,
    true,
    false,
    5n,
    [5],
    {},
    () => 5,
  ];

  for (const name of NAMES) {
    for (const option of MEMBERS.filter((member) => member in VALID[name])) {
      const isRate = option.endsWith("PerSecond");

      test.each(each([...invalidValues, ...(isRate ? [] : [0.5, 1.5, 10.000001])]))(
        `${name}: is rejected with a ${option} of %s`,
        (value) => {
          const error = rejectionOf({ ...VALID[name], [option]: value });
          expect(error).toMatchObject({ code: "invalid-option", option, received: value });
          expect(error.expected).toMatch(isRate ? /number > 0|rate such as/ : /whole number|milliseconds/);
          expect(error.message).toContain(`${option} must be ${error.expected}, but received `);
          expect(error.message.endsWith(`. See ${ERRORS_PAGE}#invalid-option`), error.message).toBe(true);
        },
      );

      test(`${name}: is rejected without ${option}`, () => {
        const { [option]: _left, ...rest } = VALID[name];
        for (const policy of [rest, { ...rest, [option]: undefined }]) {
          const error = rejectionOf(policy);
          expect(error).toMatchObject({ code: "invalid-option", option, received: undefined });
          expect(error.message).toContain(`${option} must be ${error.expected}, but received undefined.`);
        }
      });
    }

    test.each(MEMBERS.filter((member) => !(member in VALID[name])))(
      `${name}: is rejected with %s, an option of another algorithm`,
      (option) => {
        const error = rejectionOf({ ...VALID[name], [option]: 5 });
        expect(error).toMatchObject({ code: "unknown-option", option });
        expect(error.message).toContain(`"${option}" is not an option of a ${name} policy. Use algorithm, `);
        for (const known of Object.keys(VALID[name])) expect(error.expected).toContain(known);
        // Spreading options may leave undefined members.
        expect(compilePolicy({ ...VALID[name], [option]: undefined } as unknown as Policy).limit).toBe(10);
      },
    );

    test.each(["burst", "Capacity", "window", "max", "tokenPerSecond", "constructor", "__proto__x"])(
      `${name}: is rejected with the unknown option %s`,
      (option) => {
        expect(rejectionOf({ ...VALID[name], [option]: 5 })).toMatchObject({ code: "unknown-option", option });
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
    ])(`${name}: is rejected with a %s of %j`, (option, value) => {
      const error = rejectionOf({ ...VALID[name], [option]: value });
      expect(error).toMatchObject({ code: "invalid-option", option, received: value });
      expect(error.message).toMatch(new RegExp(`^${option}(: true needs| must be) `));
    });
  }

  test.each(each([null, undefined, 5, "fast", true, [], () => 5]))("is rejected if it is %s", (policy) => {
    expect(rejectionOf(policy)).toMatchObject({ code: "invalid-option", received: policy });
  });

  test.each(each(["bucket", "", null, 5, "toString", "__proto__", ["fixed-window"]]))(
    "is rejected with the algorithm %j",
    (algorithm) => {
      const error = rejectionOf({ algorithm, limit: 10, windowMs: 5 });
      expect(error).toMatchObject({ code: "invalid-option", option: "algorithm", received: algorithm });
      for (const name of NAMES) expect(error.expected).toContain(name);
    },
  );

  test("is rejected by every factory", () => {
    const policy = { capacity: 0.5, tokensPerSecond: 5 };
    for (const make of [() => memoryRateLimiter(policy), () => createLimiter({ policy })]) {
      expect(asSluiceError(thrownBy(make))).toMatchObject({
        code: "invalid-option",
        option: "capacity",
        received: 0.5,
      });
    }
  });

  const anyForm = (helper: unknown, ...given: unknown[]) => (helper as (...given: unknown[]) => Policy)(...given);
  test.each<[string, () => Policy, string, string]>([
    ["a burst of 0", () => tokenBucket("10/s", { burst: 0 }), "invalid-option", "burst"],
    ["a burst of null", () => anyForm(tokenBucket, "10/s", { burst: null }), "invalid-option", "burst"],
    ["a fractional burst", () => leakyBucket("10/s", { burst: 1.5 }), "invalid-option", "burst"],
    ["a misspelt burst", () => anyForm(tokenBucket, "10/s", { bust: 5 }), "unknown-option", "bust"],
    ["the burst of a window", () => anyForm(fixedWindow, "10/s", { burst: 5 }), "unknown-option", "burst"],
    ["a second limit", () => anyForm(slidingWindow, "10/s", { limit: 5 }), "unknown-option", "limit"],
    ["a list of options", () => anyForm(slidingLog, "10/s", []), "invalid-option", "slidingLog"],
    ["options that are null", () => anyForm(leakyBucket, "10/s", null), "invalid-option", "leakyBucket"],
    ["a limit of 0", () => fixedWindow({ limit: 0, windowMs: 1 }), "invalid-option", "limit"],
    [
      "options after a bucket object",
      () => anyForm(tokenBucket, { capacity: 1, tokensPerSecond: 1 }, { burst: 5 }),
      "unknown-option",
      "options",
    ],
    [
      "options after a window object",
      () => anyForm(slidingLog, { limit: 1, windowMs: 1 }, { name: "x" }),
      "unknown-option",
      "options",
    ],
  ])("is rejected by the helpers: %s", (_title, make, code, option) => {
    expect(asSluiceError(thrownBy(() => compilePolicy(make())))).toMatchObject({ code, option });
  });
});

describe("the range of exact policies", () => {
  const MAX_SAFE = Number.MAX_SAFE_INTEGER;
  type Edge = [quantity: string, option: string, inside: Record<string, unknown>, outside: Record<string, unknown>];
  const edges: Edge[] = [];
  for (const [algorithm, rate] of [
    ["token-bucket", "tokensPerSecond"],
    ["leaky-bucket", "leaksPerSecond"],
  ] as const) {
    const bucket = (capacity: number, perSecond: number | string) => ({ algorithm, capacity, [rate]: perSecond });
    edges.push(
      ["the parts of a bucket", "capacity", bucket(MAX_SAFE, 2000), bucket(MAX_SAFE + 1, 2000)],
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
  edges.push(["the count", "limit", fixed(MAX_SAFE), fixed(MAX_SAFE + 1)]);
  for (const algorithm of WINDOWS) {
    const window = (limit: number, windowMs: unknown) => ({ algorithm, limit, windowMs });
    edges.push(["a long window", "windowMs", window(1, 2 ** 51), window(1, 2 ** 51 + 1)]);
    edges.push(["a long window", "windowMs", window(1, "26062497d"), window(1, "26062498d")]);
  }
  const log = (limit: number) => ({ algorithm: "sliding-log", limit, windowMs: 1000 });
  edges.push(["the log", "limit", log(10_000), log(10_001)]);

  test.each(edges)("limits %s by %s: accepts %j and rejects %j", (_quantity, option, inside, outside) => {
    const { capacity, limit = capacity } = inside;
    expect(compilePolicy(inside as unknown as Policy).limit).toBe(limit);
    const error = rejectionOf(outside);
    expect(error).toMatchObject({ code: "out-of-range", option });
    expect(error.received).toBeTypeOf(
      typeof outside[option] === "string" && option !== "windowMs" ? "string" : "number",
    );
    expect(error.expected).toMatch(/\d|smaller/);
    expect(error.message).toContain(`${option} must be ${error.expected}, but received `);
  });
});

/** Values as rows of one: test.each would spread an array. */
function each<T>(values: readonly T[]): [T][] {
  return values.map((value) => [value]);
}
