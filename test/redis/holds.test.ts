/** Holds and penalties on Redis: strikes, damaged values, the maximum number of holds, `inspect` and expiry. */
import { type Charge, type Group, type Mode, memoryStore, type Policy } from "sluice";
import { compilePolicy } from "sluice/algorithms";
import { redisStore } from "sluice/redis";
import { fakeClock } from "sluice/testing";
import { beforeEach, describe, expect, it } from "vitest";
import { algorithms } from "../../src/algorithms/algorithms.ts";
import { decide } from "../../src/algorithms/decide.ts";
import { type HeldState, isHeldState, MAX_HOLDS } from "../../src/algorithms/held-state.ts";
import type { AlgorithmName } from "../../src/core/policy.ts";
import { formatHolds } from "../../src/stores/holds-text.ts";
import { ALGORITHMS, policyOf } from "../../src/testing/subject.ts";
import { onFakeTime } from "./on-fake-time.ts";
import { redis } from "./own-redis.ts";

const HELD = ALGORITHMS.filter((algorithm) => !algorithms[algorithm].queues);
const concurrent = compilePolicy({ algorithm: "concurrency", limit: 2000, name: "leases" });
const penalty = compilePolicy({ algorithm: "penalty", strikes: 2, blockMs: 1000, name: "penalty" });
const rate = compilePolicy(policyOf("fixed-window", 1, 60_000, "rate"));
const held = (policy: Charge["policy"], cost: number, id = "h", forMs = 60_000): Charge => {
  return { policy, key: "k", cost, mode: "hold", hold: { id, forMs } };
};
const storedKey = (policy: Charge["policy"], key = "k") => `s1:{${key}}${policy.id}`;

beforeEach(async () => {
  await redis.flushdb();
});

describe("strikes on Redis", () => {
  // Every mix of two modes beside a rate that is used up, and of a blocked and an unblocked penalty.
  const modes: Mode[] = ["take", "peek", "penalty", "hold", "settle", "refund"];
  const other = compilePolicy({ algorithm: "penalty", blockMs: 1000, name: "other" });
  const strikes = modes.flatMap((mode) => modes.map((second) => [mode, second] as const));

  it.each(strikes)("of a %s and a %s of penalties are those of the memory store", async (first, second) => {
    for (const rateMode of modes) {
      for (const isBlocked of [false, true]) {
        for (const cost of [1, 2]) {
          const clock = fakeClock(1_790_000_000_123);
          const stores = [memoryStore({ clock }), redisStore(onFakeTime(redis, clock), { ttlMs: "1h" })];
          const charge = (policy: Charge["policy"], mode: Mode, amount = 1): Charge => {
            const hold =
              mode === "hold" || mode === "settle" ? { id: "h", forMs: mode === "hold" ? 500 : 0 } : undefined;
            return { policy, key: "k", cost: amount, mode, hold };
          };
          const groups: Group[] = [
            [charge(rate, "take")],
            ...(isBlocked ? [[charge(penalty, "hold")]] : []),
            [charge(rate, rateMode, cost), charge(penalty, first), charge(other, second)],
            [charge(penalty, "peek"), charge(other, "peek"), charge(rate, "peek")],
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
          { policy: penalty, key: "k", cost: 1, mode: "penalty" },
          { policy: other, key: "k", cost: 1, mode: "peek" },
        ],
      ]);
    await strike(1);
    await strike(2);
    expect(await redis.exists(storedKey(penalty))).toBe(0);
    await strike(1);
    expect(await store.inspect?.(penalty, "k")).toMatchObject({ strikes: 1, blockedMs: 0, found: true });
    await strike(1);
    expect(await store.inspect?.(penalty, "k")).toMatchObject({ strikes: 2, blockedMs: expect.any(Number) });
    const blocked = (await store.inspect?.(penalty, "k"))?.raw;
    await strike(1);
    expect((await store.inspect?.(penalty, "k"))?.raw, "a denial by the penalty is no strike").toBe(blocked);
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
      const holds = /\|\d{13} \d{13}:1:b \d{13}:3:a/;
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

  it(`are at most ${MAX_HOLDS} in one bucket`, async () => {
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
      expect(isHeldState(state) && (await redis.get(name))).toBe(formatHolds(state));
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
        ? { algorithm, limit: 10, name: algorithm }
        : policyOf(algorithm, 10, 3_600_000, algorithm);
    const policy = compilePolicy(shape as Policy);
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
      hold: mode === "hold" || mode === "settle" ? { id: "a", forMs: 9 } : undefined,
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
