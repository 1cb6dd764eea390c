/**
 * Damaged and foreign values: each is rejected for its own caller or decided within the bound. No other charge of the
 * same call is affected, and no group is written in part. SLUICE_SCALE multiplies the number of values (default
 * 1 000) and SLUICE_SEED the seed.
 */

import { consumeAll, createLimiter, type Decision, type RateLimiter } from "sluice";
import { type IoredisLike, redisStore } from "sluice/redis";
import { beforeEach, describe, expect, it } from "vitest";
import { leastCount, scaled } from "../../scripts/scale.js";
import type { AlgorithmName } from "../../src/core/policy.ts";
import { randomFrom } from "../../src/testing/random.ts";
import { ALGORITHMS, policyOf } from "../../src/testing/subject.ts";
import { withRedis } from "../servers/needs.ts";
import { redis } from "./own-redis.ts";

const VALUES = scaled(1000);
const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
const LIMIT = 10;
const WINDOW_MS = 3_600_000;
const storeOnly = { onStoreError: "throw", localDenialMs: 0, deadlineMs: 20_000 } as const;

type Random = ReturnType<typeof randomFrom>;
/** A stored value: a string or a list. */
type Value = string | string[];

let calls: string[][];
let limiters: Record<AlgorithmName, RateLimiter>;

beforeEach(async () => {
  await redis.flushdb();
  calls = [];
  const client: IoredisLike = {
    get status() {
      return redis.status;
    },
    evalsha(hash, count, ...rest) {
      calls.push(rest.slice(0, count));
      return redis.evalsha(hash, count, ...rest);
    },
    eval: (text, count, ...rest) => redis.eval(text, count, ...rest),
  };
  const store = redisStore(client);
  limiters = Object.fromEntries(
    ALGORITHMS.map((algorithm) => [
      algorithm,
      createLimiter({ policy: policyOf(algorithm, LIMIT, WINDOW_MS, algorithm), store, ...storeOnly }),
    ]),
  ) as Record<AlgorithmName, RateLimiter>;
  await limiters["token-bucket"].consume("warm-up");
});

describe(`a damaged value (seed ${seed})`, withRedis, () => {
  it.each(ALGORITHMS)("%s: affects no other charge of its call and never exceeds the bound", async (algorithm) => {
    const random = randomFrom(seed);
    const limiter = limiters[algorithm];
    const { storedKey } = await limiter.inspect("bad");
    const counts = { foreign: 0, decided: 0 };
    for (let i = 0; i < VALUES / ALGORITHMS.length; i++) {
      const value = damaged(algorithm, random);
      const context = `${algorithm}, value ${i}: ${JSON.stringify(value).slice(0, 500)}`;
      await put(storedKey, value);
      calls.length = 0;
      // Takes of one policy and cost are the most common calls, with a fast path for token buckets in the script.
      const isUniform = random.whole(1, 3) === 1;
      const action = isUniform ? take : random.pick([take, take, peek, refund, inspect]);
      const cost = isUniform ? 1 : random.pick([1, 1, 2, LIMIT, LIMIT + 1]);
      const [bad, ...others] = await Promise.allSettled([
        action(limiter, cost),
        ...(isUniform ? [algorithm] : ALGORITHMS).map((name) => limiters[name].consume(`good ${i}`)),
      ]);
      expect(calls, context).toHaveLength(1);
      expect(calls[0], context).toContain(storedKey);
      for (const other of others) {
        expect(other, context).toMatchObject({ status: "fulfilled", value: { allowed: true, remaining: LIMIT - 1 } });
      }
      if (bad?.status === "rejected") {
        counts.foreign++;
        expect(bad.reason, context).toMatchObject({ code: "foreign-value" });
        continue;
      }
      counts.decided++;
      if (bad?.value) expectBounded(algorithm, bad.value, context, String(value).includes("|"));
      // Whatever the value was read as, the limit can't be consumed twice.
      const twice = await Promise.allSettled([limiter.consume("bad", LIMIT), limiter.consume("bad", LIMIT)]);
      expect(twice.filter((one) => one.status === "fulfilled" && one.value.allowed).length, context).toBeLessThan(2);
    }
    expect(counts.foreign, "rejected values").toBeGreaterThan(leastCount(VALUES / ALGORITHMS.length / 5));
    expect(counts.decided, "values that are still valid").toBeGreaterThan(0);
  });

  it.each(ALGORITHMS)("%s: leaves the other charges of its group unwritten", async (algorithm) => {
    const random = randomFrom(seed);
    const { storedKey } = await limiters[algorithm].inspect("bad");
    const names = ALGORITHMS.filter((name) => name !== algorithm);
    for (let i = 0; i < VALUES / ALGORITHMS.length / 10; i++) {
      const value = damaged(algorithm, random);
      const context = `${algorithm}, value ${i}: ${JSON.stringify(value).slice(0, 500)}`;
      await put(storedKey, value);
      const others = names.map((name) => ({ limiter: limiters[name], key: `good ${i}`, cost: 3 }));
      const at = random.whole(0, others.length);
      const cost = random.pick([1, 3, LIMIT]);
      const charges = others.toSpliced(at, 0, { limiter: limiters[algorithm], key: "bad", cost });
      const [whole] = await Promise.allSettled([consumeAll(charges)]);
      if (whole?.status === "rejected") expect(whole.reason, context).toMatchObject({ code: "foreign-value" });
      const taken = whole?.status === "fulfilled" && whole.value.allowed ? 3 : 0;
      for (const { limiter, key } of others) expect((await limiter.peek(key)).remaining, context).toBe(LIMIT - taken);
    }
  });

  it("is rejected for its own caller only if a log has contradicting, free or unreadable grants (issue 13)", async () => {
    const limiter = limiters["sliding-log"];
    const { storedKey } = await limiter.inspect("bad");
    const ends = Date.now() + WINDOW_MS / 2;
    const values: Value[] = [
      // Values that failed the whole call when a log was stored as one string.
      `10 ${ends}:1`,
      `3 ${ends}:1 garbage ${ends}:1`,
      `0 ${ends}:0`,
      ["0", `${ends}`, "0"],
      ["5", `${ends}`, "3"],
      ["0", `${ends}`],
      ["0", `${ends}`, "1", "garbage", "2", `${ends}`],
      ["0", `${ends}`, "1", `${ends}`, "garbage", `${ends}`, "10"],
      ["0", "nan", "1", `${ends}`, "10"],
    ];
    for (const value of values) {
      await put(storedKey, value);
      const [bad, good] = await Promise.allSettled([limiter.consume("bad", 5), limiter.consume(`good ${value}`)]);
      expect(good, String(value)).toMatchObject({ status: "fulfilled", value: { remaining: LIMIT - 1 } });
      if (bad?.status === "fulfilled") expectBounded("sliding-log", bad.value, String(value));
      else expect(bad?.reason, String(value)).toMatchObject({ code: "foreign-value" });
      await limiter.reset("bad");
      expect((await limiter.consume("bad")).remaining, "a reset repairs it").toBe(LIMIT - 1);
    }
  });

  it("fails its whole group and no other one if the server raises an error (issue 13)", async () => {
    const bucket = limiters["token-bucket"];
    await bucket.consume("full", 1);
    await redis.config("SET", "maxmemory", "1");
    try {
      const { storedKey } = await bucket.inspect("full");
      // The first charge can't be written because memory is full; the second could, because it deletes its key.
      const reply = await redis.evalsha(
        (await import("../../src/stores/redis/script.ts")).sha,
        3,
        ...["s1:{x}w", storedKey, "s1:{y}l"],
        ...["1 2", "fixed-window take 1 10 60000 1 0 0", `token-bucket refund 10 10 ${WINDOW_MS} 360000 1 0`],
        ...["1 1", "sliding-log peek 1 10 60000 1 0 0"],
      );
      expect(reply).toEqual([2, expect.stringMatching(/^OOM/), "SKIPPED", 0, 0, 0, 0, expect.any(Number)]);
      expect(await redis.exists(storedKey)).toBe(1);
    } finally {
      await redis.config("SET", "maxmemory", "0");
    }
  });
});

type Action = (limiter: RateLimiter, cost: number) => Promise<Decision | undefined>;
const take: Action = (limiter, cost) => limiter.consume("bad", cost);
const peek: Action = (limiter, cost) => limiter.peek("bad", cost);

const refund: Action = async (limiter, cost) => {
  await limiter.refund("bad", cost);
  return undefined;
};

const inspect: Action = async (limiter) => {
  const { remaining } = await limiter.inspect("bad");
  expect(remaining).toBeGreaterThanOrEqual(0);
  expect(remaining).toBeLessThanOrEqual(LIMIT);
  return undefined;
};

/** Checks that the policy could have made the decision. */
function expectBounded(algorithm: AlgorithmName, decision: Decision, context: string, hasHolds = false): void {
  // A damaged hold may end at any time.
  const longest = hasHolds ? Number.MAX_SAFE_INTEGER : (algorithm === "sliding-window" ? 2 : 1) * WINDOW_MS;
  const within = (name: string, value: number, least: number, most: number) => {
    expect(Number.isInteger(value) && value >= least && value <= most, `${name} is ${value}: ${context}`).toBe(true);
  };
  within("remaining", decision.remaining, 0, LIMIT);
  within("resetAfterMs", decision.resetAfterMs, 0, longest);
  within("nextAfterMs", decision.nextAfterMs, 0, longest);
  if (!decision.allowed && decision.retryAfterMs !== null) within("retryAfterMs", decision.retryAfterMs, 1, longest);
}

/** Stores a value with a TTL, as the store does. */
async function put(key: string, value: Value): Promise<void> {
  await redis.del(key);
  if (typeof value === "string") await redis.set(key, value);
  else if (value.length > 0) await redis.rpush(key, ...value);
  await redis.pexpire(key, WINDOW_MS);
}

/** Returns a value that the script could have written, with random damage. */
function damaged(algorithm: AlgorithmName, random: Random): Value {
  if (random.whole(1, 20) === 1) return random.pick<Value>(["", "\0", "x", ["x"], ["1", "2"], ["1", "2", "3"]]);
  let value = valid(algorithm, random);
  // A value of another algorithm, or of a version that stored a log as text.
  if (random.whole(1, 20) === 1) value = valid(random.pick(ALGORITHMS), random);
  if (Array.isArray(value) && random.whole(1, 4) === 1) {
    value = `${random.whole(1, LIMIT)}${value.slice(1).reduce((text, part, i) => `${text}${i % 2 ? ":" : " "}${part}`, "")}`;
  }
  for (let i = random.whole(1, 3); i > 0; i--) value = mutated(value, random);
  return value;
}

function valid(algorithm: AlgorithmName, random: Random): Value {
  const own = withoutHolds(algorithm, random);
  if (random.whole(1, 3) > 1) return own;
  const ends = Array.from({ length: random.whole(1, 4) }, () => Date.now() + random.whole(1, WINDOW_MS)).sort();
  const debt = random.pick(["", ` ${ends[0]}:${random.whole(1, LIMIT)}:`]);
  const holds = `|${Date.now()}${debt}${ends.map((end, i) => ` ${end}:${random.whole(1, 3)}:id${i}`).join("")}`;
  return Array.isArray(own) ? [`${own[0]}${holds}`, ...own.slice(1)] : random.pick([own, ""]) + holds;
}

function withoutHolds(algorithm: AlgorithmName, random: Random): Value {
  const instant = () => Date.now() + random.whole(-WINDOW_MS, 3 * WINDOW_MS);
  const count = () => String(random.whole(0, LIMIT));
  if (algorithm === "fixed-window") return `${instant()}:${count()}`;
  if (algorithm === "sliding-window") return `${instant()}:${count()}:${count()}`;
  if (algorithm !== "sliding-log") return random.pick([`${instant()}`, `${instant()}:${random.whole(1, 400_000)}`]);
  const ends = Array.from({ length: random.whole(1, random.pick([2, 10, 60])) }, instant).sort((a, b) => a - b);
  let total = random.pick([0, 5, 1000]);
  return [`${total}`, ...ends.flatMap((end) => [`${end}`, `${(total += random.whole(1, 3))}`])];
}

const PIECES = [
  "0",
  "1",
  "17",
  ":",
  "|",
  " ",
  "x",
  "-",
  ".",
  "e5",
  "\0",
  "é",
  "nan",
  "inf",
  "0x1",
  "9007199254740993",
  "1e400",
];

function mutated(value: Value, random: Random): Value {
  if (typeof value === "string") {
    const at = random.whole(0, value.length);
    const cut = random.pick([0, 0, 1, 1, 2, value.length]);
    return value.slice(0, at) + random.pick(["", "", random.pick(PIECES)]) + value.slice(at + cut);
  }
  const at = random.whole(0, Math.max(0, value.length - 1));
  const element = value[at] ?? "";
  const other = value[random.whole(0, Math.max(0, value.length - 1))] ?? "";
  return random.pick([
    () => value.toSpliced(at, 1),
    () => value.toSpliced(at, 2),
    () => value.toSpliced(at, 0, random.pick(PIECES)),
    () => value.toSpliced(at, 1, other),
    () => value.toSpliced(at, 1, random.pick(PIECES)),
    () => value.toSpliced(at, 1, mutated(element, random) as string),
    () => value.slice(0, at),
    () => value.toReversed(),
  ])();
}
