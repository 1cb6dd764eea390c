/** Holds and penalties on Redis: strikes, damaged values, the maximum number of holds, `inspect` and expiry. */

import { type Charge, concurrency, type Group, type Mode, memoryStore, type Policy, penalty } from "sluice";
import { compilePolicy, holdTerms } from "sluice/algorithms";
import { redisStore } from "sluice/redis";
import { fakeClock } from "sluice/testing";
import { beforeEach, describe, expect, it } from "vitest";
import type { AlgorithmName } from "../../src/core/policy.ts";
import { type HeldState, isHeldState } from "../../src/core/state.ts";
import { algorithms } from "../../src/holds/all-algorithms.ts";
import { decide } from "../../src/holds/with-holds.ts";
import { MAX_HOLDS } from "../../src/policy/max-holds.ts";
import { formatHolds, parseHolds } from "../../src/stores/holds-text.ts";
import { ALGORITHMS, policyOf } from "../../src/testing/subject.ts";
import { onFakeTime } from "./on-fake-time.ts";
import { redis } from "./own-redis.ts";

const HELD = ALGORITHMS.filter((algorithm) => !algorithms[algorithm].queues);
const concurrent = compilePolicy(concurrency(2000, { name: "leases" }));
const struck = compilePolicy(penalty({ strikes: 2, blockMs: 1000, name: "penalty" }));
const rate = compilePolicy(policyOf("fixed-window", 1, 60_000, "rate"));
const held = (policy: Charge["policy"], cost: number, id = "h", forMs = 60_000): Charge => {
  return { policy, key: "k", cost, mode: "hold", hold: holdTerms(id, forMs) };
};
const storedKey = (policy: Charge["policy"], key = "k") => `s1:{${key}}${policy.id}`;

beforeEach(async () => {
  await redis.flushdb();
});

describe("strikes on Redis", () => {
  // Every mix of two modes beside a rate that is used up, and of a blocked and an unblocked penalty.
  const modes: Mode[] = ["take", "peek", "penalty", "hold", "settle", "refund"];
  const other = compilePolicy(penalty({ blockMs: 1000, name: "other" }));
  const strikes = modes.flatMap((mode) => modes.map((second) => [mode, second] as const));

  it.each(strikes)("of a %s and a %s of penalties are those of the memory store", async (first, second) => {
    for (const rateMode of modes) {
      for (const isBlocked of [false, true]) {
        for (const cost of [1, 2]) {
          const clock = fakeClock(1_790_000_000_123);
          const stores = [memoryStore({ clock }), redisStore(onFakeTime(redis, clock), { ttlMs: "1h" })];
          const charge = (policy: Charge["policy"], mode: Mode, amount = 1): Charge => {
            const hold = mode === "hold" || mode === "settle" ? holdTerms("h", mode === "hold" ? 500 : 0) : undefined;
            return { policy, key: "k", cost: amount, mode, hold };
          };
          const groups: Group[] = [
            [charge(rate, "take")],
            ...(isBlocked ? [[charge(struck, "hold")]] : []),
            [charge(rate, rateMode, cost), charge(struck, first), charge(other, second)],
            [charge(struck, "peek"), charge(other, "peek"), charge(rate, "peek")],
          ];
          const [expected, got] = await Promise.all(stores.map((store) => store.apply(groups)));
          expect(got, `${rateMode} ${cost}, ${isBlocked ? "blocked" : "not blocked"}`).toEqual(expected);
        }
      }
    }
  });

  it("strike a penalty in mode penalty and never one in mode peek, and only for denials that can end", async () => {
    const store = redisStore(redis);
    const strike = (cost: number) =>
      store.apply([
        [
          { policy: rate, key: "k", cost, mode: "take" },
          { policy: struck, key: "k", cost: 1, mode: "penalty" },
          { policy: other, key: "k", cost: 1, mode: "peek" },
        ],
      ]);
    await strike(1);
    await strike(2);
    expect(await redis.exists(storedKey(struck))).toBe(0);
    await strike(1);
    expect(await store.inspect?.(struck, "k")).toMatchObject({ strikes: 1, blockedMs: 0, found: true });
    await strike(1);
    expect(await store.inspect?.(struck, "k")).toMatchObject({ strikes: 2, blockedMs: expect.any(Number) });
    const blocked = (await store.inspect?.(struck, "k"))?.raw;
    await strike(1);
    expect((await store.inspect?.(struck, "k"))?.raw, "a denial by the penalty is no strike").toBe(blocked);
    expect(await redis.exists(storedKey(other))).toBe(0);
  });
});

describe("holds on Redis", () => {
  it("are stored after the algorithm's own value, and leave it as it was when they are settled", async () => {
    const store = redisStore(redis);
    const own: Record<string, RegExp> = {
      "token-bucket": /^\d{13}(:\d+\/\d+)?$/,
      "fixed-window": /^\d{13}:2$/,
      "sliding-window": /^\d{13}:0:2$/,
      "sliding-log": /^0 \d{13} 2$/,
    };
    for (const algorithm of HELD) {
      const policy = compilePolicy(policyOf(algorithm, 9, 3_600_000, algorithm));
      const raw = async () => String((await store.inspect?.(policy, "k"))?.raw);
      await store.apply([[{ policy, key: "k", cost: 2, mode: "take" }]]);
      const before = await raw();
      expect(before).toMatch(own[algorithm] as RegExp);
      await store.apply([[held(policy, 3, "a"), held(rate, 1, "b")], [held(policy, 1, "b", 30_000)]]);
      const holds = /\|\d{13}\/4\/\d{13} \d{13}:1:b \d{13}:3:a/;
      expect((await raw()).replace(holds, ""), algorithm).toBe(before);
      const { holds: described, ttlMs, remaining, debt } = (await store.inspect?.(policy, "k")) ?? {};
      expect(described?.map(({ id, amount }) => [id, amount])).toEqual([
        ["b", 1],
        ["a", 3],
      ]);
      expect(remaining).toBe(3);
      expect(debt).toBeUndefined();
      expect(ttlMs).toBeGreaterThan(60_000);
      const settle = (id: string, cost: number): Charge => ({ ...held(policy, cost, id, 0), mode: "settle" });
      await store.apply([[settle("a", 0)], [settle("b", 0)], [{ ...held(rate, 0, "b", 0), mode: "settle" }]]);
      expect(await raw(), algorithm).toBe(before);
      await store.apply([[held(policy, 1, "c")], [settle("c", 30)]]);
      expect(await store.inspect?.(policy, "k"), algorithm).toMatchObject({ remaining: 0, debt: 9 });
      await store.apply([[{ policy, key: "k", cost: 0, mode: "reset" }]]);
      expect(await redis.keys("*"), algorithm).toEqual([]);
    }
  });

  it("are at most 200 in one bucket, or maxHolds, or as many as a concurrency limit allows", async () => {
    const bucket = { algorithm: "token-bucket", capacity: 10_000, tokensPerSecond: 1, name: "many" } as const;
    const policies: [Policy, number][] = [
      [bucket, 200],
      [{ ...bucket, name: "few", maxHolds: 3 }, 3],
      [{ ...bucket, name: "most", maxHolds: 1000 }, 1000],
      [concurrency(250, { name: "c250" }), 250],
      [concurrency(250, { name: "c7", maxHolds: 7 }), 7],
    ];
    const clock = fakeClock(1_790_000_000_000);
    for (const store of [memoryStore({ clock }), redisStore(onFakeTime(redis, clock))]) {
      for (const [given, maxHolds] of policies) {
        const policy = compilePolicy(given);
        const ids = Array.from({ length: maxHolds }, (_, i) => `h${i}`);
        const decisions = await Promise.all(ids.map((id) => store.apply([[held(policy, 1, id)]])));
        expect(
          decisions.flat(2).every(({ allowed }) => allowed),
          policy.name,
        ).toBe(true);
        const [[denied] = []] = await store.apply([[held(policy, 1, "one-more")]]);
        expect(denied, policy.name).toMatchObject({ allowed: false, retryAfterMs: 60_000, held: maxHolds });
        expect((await store.apply([[held(policy, 1, "h1")]])).flat()[0]?.allowed, "held already").toBe(true);
      }
    }
  });

  it("that an earlier version stored, without their sum, are read", async () => {
    const store = redisStore(redis);
    const policy = compilePolicy({ algorithm: "token-bucket", capacity: 1000, tokensPerSecond: 1, name: "old" });
    const ends = Date.now() + 60_000;
    const many = Array.from({ length: 100 }, (_, i) => ` ${ends + i}:2:hold-${i}`).join("");
    await redis.set(storedKey(policy), `|${Date.now()}${many}`, "PX", 60_000);
    const take = { policy, key: "k", cost: 1, mode: "take" } as const;
    expect(await store.apply([[take]])).toMatchObject([[{ allowed: true, held: 200, remaining: 799 }]]);
    expect(await redis.get(storedKey(policy))).toMatch(/\|\d{13}\/0+200\/\d{13} \d{13}:2:hold-0 /);
    expect(await store.apply([[take]])).toMatchObject([[{ allowed: true, held: 200, remaining: 798 }]]);
    expect(parseHolds(`${Date.now()}${many}`)?.holds).toHaveLength(100);
  });

  it.each([1, 100])("of a concurrency limit, %i of them, forget a debt that only damage can make", async (count) => {
    const now = Date.now();
    const leases = Array.from({ length: count }, (_, i) => ` ${now + 60_000}:1:lease-${i}`).join("");
    await redis.set(storedKey(concurrent), `|${now}/${count + 5}/${now + 60_000} ${now - 10}:5:${leases}`);
    const peek: Charge = { policy: concurrent, key: "k", cost: 1, mode: "peek" };
    expect(await redisStore(redis).apply([[peek]])).toMatchObject([[{ allowed: true, held: count }]]);
  });

  it.each(HELD)(
    "many of a %s beside a debt are those of the memory store, also after a change of the plan",
    async (algorithm) => {
      const planOf = (limit: number) =>
        compilePolicy({ ...policyOf(algorithm, limit, 10_000, "plan"), share: true } as Policy);
      const small = planOf(40);
      for (const [other, actual] of [
        [small, 45],
        [planOf(130), 60],
      ] as const) {
        const clock = fakeClock(1_790_000_000_000);
        const stores = [memoryStore({ clock }), redisStore(onFakeTime(redis, clock))];
        const both = async (groups: Group[]) => {
          const [expected, got] = await Promise.all(stores.map((store) => store.apply(groups)));
          expect(got, `${other.limit}, ${clock.now() - 1_790_000_000_000} ms`).toEqual(expected);
        };
        const many = Array.from({ length: 20 }, (_, i) => [held(small, 1, `${i}`.padEnd(60, "x"), 14_000 + 500 * i)]);
        await both([...many, [held(small, 1, "a")], [{ ...held(small, actual, "a", 0), mode: "settle" }]]);
        for (let step = 0; step < 90; step++) {
          clock.advance(step % 7 === 0 ? 1 : 331);
          const policy = step % 3 === 0 ? small : other;
          for (const mode of ["peek", "take"] as const) await both([[{ policy, key: "k", cost: step % 9, mode }]]);
        }
      }
    },
  );

  it.each(["", " and a debt"])("do not make a take expensive for Redis beside 200 or 1000%s", async (debt) => {
    const store = redisStore(redis);
    const serverUs = async () => {
      const stats = await redis.info("commandstats");
      return Number(/cmdstat_evalsha:calls=\d+,usec=(\d+)/.exec(stats)?.[1]);
    };
    const policy = compilePolicy({
      algorithm: "token-bucket",
      capacity: 1e6,
      tokensPerSecond: 1,
      name: "t",
      maxHolds: 1000,
    });
    const medians: number[] = [];
    for (const count of [0, 200, 1000]) {
      const key = `beside ${count}${debt}`;
      const ids = Array.from({ length: count }, (_, i) => `0f8fad5b-d9cb-469f-a165-${String(i).padStart(12, "0")}`);
      await store.apply(ids.map((id) => [{ ...held(policy, 1, id, 3_600_000), key }]));
      const [first] = ids;
      if (debt && first) await store.apply([[{ ...held(policy, 1.5e6, first), key, mode: "settle" }]]);
      const times: number[] = [];
      for (let i = 0; i < 101; i++) {
        const before = await serverUs();
        const [[taken] = []] = await store.apply([[{ policy, key, cost: 1, mode: "take" }]]);
        times.push((await serverUs()) - before);
        expect(taken?.allowed).toBe(!debt || count === 0);
      }
      medians.push(times.sort((a, b) => a - b)[50] as number);
    }
    const [none = 1, beside200 = 0, beside1000 = 0] = medians;
    // bench/redis-holds.js measures the goals, 4 and 10. Parsing all holds takes 37 and 185 times as long.
    expect(beside200 / none, String(medians)).toBeLessThan(6);
    expect(beside1000 / none, String(medians)).toBeLessThan(15);
  });

  it(`are at most ${MAX_HOLDS} in one bucket of a high limit`, async () => {
    const clock = fakeClock(1_790_000_000_000);
    const now = clock.now();
    const holds = Array.from({ length: MAX_HOLDS }, (_, i) => ({ id: `h${i}`, amount: 1, end: now + 1000 + i }));
    let state: HeldState = { base: [], writtenAt: now, holds };
    const prefixed: string[] = [];
    const client = onFakeTime(redis, clock);
    const seen = {
      ...client,
      status: "ready",
      evalsha: (sha: string, count: number, ...rest: string[]) => {
        prefixed.push(rest[0] as string);
        return client.evalsha(sha, count, ...rest);
      },
    };
    const store = redisStore(seen, { ttlMs: "1h" });
    await store.apply([[held(concurrent, 1)]]);
    const [name = ""] = await redis.keys(`*${prefixed[0]}`);
    await redis.set(name, formatHolds(state), "PX", 3_600_000);
    for (const [charge, advance] of [
      [held(concurrent, 1, "new"), 0],
      [held(concurrent, 3, "h7"), 0],
      [held(concurrent, 1, "new"), 999],
      [held(concurrent, 1, "new"), 1],
      [held(concurrent, 1, "newer"), 0],
    ] as const) {
      clock.advance(advance);
      const expected = decide(state, charge, clock.now());
      expect(await store.apply([[charge]])).toEqual([[expected.decision]]);
      state = expected.state as HeldState;
      // Zeros precede the sum of many holds.
      const stored = (await redis.get(name))?.replace(/\/0+(?=\d)/, "/");
      expect(isHeldState(state) && stored).toBe(formatHolds(state));
    }
  });

  it("are held and settled in a log that is written in several parts", async () => {
    const clock = fakeClock(1_790_000_000_000);
    const policy = compilePolicy(policyOf("sliding-log", 1100, 100_000, "long"));
    const stores = [memoryStore({ clock }), redisStore(onFakeTime(redis, clock), { ttlMs: "1h" })];
    const both = async (charge: Omit<Charge, "policy" | "key">, advance = 1) => {
      clock.advance(advance);
      const [expected, got] = await Promise.all(
        stores.map((store) => store.apply([[{ ...charge, policy, key: "k" }]])),
      );
      expect(got, JSON.stringify(charge)).toEqual(expected);
    };
    for (let i = 0; i < 1050; i++) await both({ cost: 1, mode: "take" });
    await both(held(policy, 40));
    await both({ cost: 5, mode: "take" });
    await both({ cost: 11, mode: "peek" });
    await both({ ...held(policy, 100, "h", 0), mode: "settle" });
    await both({ cost: 60, mode: "refund" });
    await both(held(policy, 20, "next", 30_000));
    await both({ cost: 1, mode: "take" }, 99_700);
    await both({ cost: 900, mode: "take" });
    await both({ cost: 900, mode: "take" });
  });

  it("expire with their bucket", async () => {
    const store = redisStore(redis);
    await store.apply([[held(concurrent, 1, "a", 100)], [held(concurrent, 1, "b", 40)]]);
    expect(await redis.pttl(storedKey(concurrent))).toBeGreaterThan(40);
    const log = compilePolicy(policyOf("sliding-log", 5, 30, "log"));
    await store.apply([[held(log, 1, "a", 100)]]);
    const ttl = await redis.pttl(storedKey(log));
    expect(ttl).toBeGreaterThan(100);
    expect(ttl).toBeLessThanOrEqual(130);
  });
});

describe("a damaged value with holds", () => {
  const names: AlgorithmName[] = [...HELD, "concurrency"];

  it.each(names)("%s: is rejected for its own caller only", async (algorithm) => {
    const store = redisStore(redis);
    const shape =
      algorithm === "concurrency"
        ? concurrency(10, { name: algorithm })
        : policyOf(algorithm, 10, 3_600_000, algorithm);
    const policy = compilePolicy(shape);
    const key = storedKey(policy, "bad");
    const ends = Date.now() + 60_000;
    const own =
      { "token-bucket": `${ends}`, "fixed-window": `${ends}:1`, "sliding-window": `${ends}:1:1` }[
        algorithm as string
      ] ?? "";
    const valid = `|${Date.now()} ${ends}:1:a ${ends}:2:b`;
    const bad = ["|", "|1", "|x", `${valid} `, `${valid} 1:1:c`, `${valid} ${ends}:1:`, `|1 ${ends}:0:`, `${valid}|`];
    bad.push(
      `|1 ${ends}:1:${"x".repeat(65)}`,
      `|1 ${ends}:-1:a`,
      `|1 ${ends}:1.5:a`,
      `|1 99999999999999999:1:a`,
      `|1 ${ends}:1:a b`,
    );
    const charges: Charge[] = (["take", "peek", "refund", "hold", "settle", "penalty"] as Mode[]).map((mode) => ({
      ...held(policy, 1),
      key: "bad",
      mode,
      hold: mode === "hold" || mode === "settle" ? holdTerms("a", 9) : undefined,
    }));
    for (const suffix of bad) {
      const value = own + suffix;
      for (const charge of charges) {
        await redis.del(key);
        if (algorithm === "sliding-log") await redis.rpush(key, `0${suffix}`, `${ends}`, "1");
        else await redis.set(key, value);
        const other: Charge = {
          ...held(policy, 1),
          key: `good ${suffix} ${charge.mode}`,
        };
        const results = await Promise.allSettled([
          store.apply([[charge]]),
          store.apply([[{ ...other, key: `${other.key}, in a group` }, charge]]),
          store.apply([[other]]),
        ]);
        expect(results[0], `${charge.mode} of ${value}`).toMatchObject({ reason: { code: "foreign-value" } });
        expect(results[1], `${charge.mode} of ${value}`).toMatchObject({ reason: { code: "foreign-value" } });
        expect(results[2], value).toMatchObject({ status: "fulfilled", value: [[{ allowed: true, held: 1 }]] });
        expect(await redis.exists(storedKey(policy, `${other.key}, in a group`)), value).toBe(0);
      }
    }
    await store.apply([[{ policy, key: "bad", cost: 0, mode: "reset" }]]);
    expect(await redis.exists(key)).toBe(0);
  });

  it("of a sliding log is rejected whichever element is damaged", async () => {
    const store = redisStore(redis);
    const policy = compilePolicy(policyOf("sliding-log", 10, 3_600_000, "log"));
    const ends = Date.now() + 60_000;
    const held0 = `0|${Date.now()} ${ends}:1:a`;
    for (const list of [
      [held0, `${ends}`],
      [held0, `${ends}`, "0"],
      [held0, "x", "1"],
      [held0, `${ends}`, "2", `${ends}`, "1"],
      [held0, `${ends}`, "1", `${ends - 1}`, "2"],
      [held0, `${ends}`, "1|", `${ends}`, "2"],
      [held0.slice(1), `${ends}`, "1"],
    ]) {
      await redis.del(storedKey(policy));
      await redis.rpush(storedKey(policy), ...list);
      await expect(store.apply([[{ policy, key: "k", cost: 1, mode: "take" }]]), String(list)).rejects.toMatchObject({
        code: "foreign-value",
      });
      expect(await redis.lrange(storedKey(policy), 0, -1)).toEqual(list);
    }
  });
});
