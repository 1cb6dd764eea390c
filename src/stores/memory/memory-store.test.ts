/** The memory store against the contract, and what is its own: bounds, eviction, time, disposal. */
import { createLimiter, memoryRateLimiter, memoryStore } from "sluice";
import { describeRateLimiter, fakeClock, storeSuite } from "sluice/testing";
import { describe, expect, it } from "vitest";

storeSuite(
  "memory",
  () => {
    const clock = fakeClock();
    const store = memoryStore({ clock, maxKeys: 500 });
    return { store, advance: clock.advance, maxKeys: 500, restart: () => memoryStore({ clock }) };
  },
  { describe, it, restart: true },
);

describeRateLimiter(
  "memoryRateLimiter",
  (policy) => {
    const clock = fakeClock();
    return { limiter: memoryRateLimiter(policy, { clock }), advance: clock.advance };
  },
  { describe, it },
);

describeRateLimiter("createLimiter on the system's time", (policy) => createLimiter({ policy }), { describe, it });

describeRateLimiter(
  "createLimiter where waiting is real",
  (policy) => ({
    limiter: createLimiter({ policy }),
    // A timer may fire a moment early; what counts is the clock that the store reads.
    async advance(ms) {
      for (const end = Date.now() + ms; Date.now() < end; ) await new Promise((resolve) => setTimeout(resolve, 1));
    },
  }),
  { describe, it, time: "real" },
);

describe("memoryStore", () => {
  const policy = { capacity: 10, tokensPerSecond: "10/1h" } as const;

  it("never keeps more than maxKeys, over all policies", () => {
    const store = memoryStore({ clock: fakeClock(), maxKeys: 100 });
    const [a, b] = [createLimiter({ policy, store }), createLimiter({ policy: { ...policy, capacity: 5 }, store })];
    for (let i = 0; i < 1000; i++) (i % 3 === 0 ? a : b).consumeSync(`key:${i}`);
    expect(store.size).toBe(100);
    expect(store.evictions).toBe(900);
  });

  it("gives up buckets that are full again without counting them", () => {
    const clock = fakeClock();
    const store = memoryStore({ clock, maxKeys: 100 });
    const limiter = createLimiter({ policy, store });
    for (let i = 0; i < 100; i++) limiter.consumeSync(`old:${i}`);
    clock.advance(3_600_000);
    for (let i = 0; i < 50; i++) limiter.consumeSync(`new:${i}`);
    expect(store.size).toBe(100);
    // Of eight candidates one at least is full again, except with odds of 2^-8 near the end.
    expect(store.evictions).toBeLessThan(10);
  });

  it("keeps the denied keys of one policy through a spray on another", () => {
    const store = memoryStore({ clock: fakeClock(), maxKeys: 1000 });
    const login = createLimiter({ policy: { ...policy, name: "login" }, store });
    const api = createLimiter({ policy: { ...policy, name: "api" }, store });
    for (let i = 0; i < 50; i++) login.consumeSync(`attacker:${i}`, 10);
    for (let i = 0; i < 15_000; i++) api.consumeSync(`spray:${i}`);
    const denied = Array.from({ length: 50 }, (_, i) => login.consumeSync(`attacker:${i}`)).filter((d) => !d.allowed);
    expect(denied).toHaveLength(50);
  });

  it.each(["token-bucket", "sliding-log"] as const)(
    "is split above 131 072 keys and decides the same (%s)",
    (algorithm) => {
      const clock = fakeClock();
      const options = { clock, maxKeys: 1_000_000 };
      const limiter =
        algorithm === "token-bucket"
          ? memoryRateLimiter({ capacity: 2, tokensPerSecond: "2/1h" }, options)
          : memoryRateLimiter({ algorithm, limit: 2, windowMs: "1h" }, options);
      for (let round = 0; round < 3; round++) {
        for (let i = 0; i < 20_000; i++) expect(limiter.consumeSync(`key:${i}`).allowed).toBe(round < 2);
      }
      expect(limiter.store.size).toBe(20_000);
      expect(limiter.store.evictions).toBe(0);
    },
  );

  it("takes ten million keys as its bound", () => {
    const limiter = memoryRateLimiter(policy, { maxKeys: 10_000_000 });
    expect(limiter.consumeSync("k").remaining).toBe(9);
  });

  it("forgets everything on clear, and goes on", async () => {
    const store = memoryStore({ clock: fakeClock(), maxKeys: 10 });
    const limiter = createLimiter({ policy, store });
    for (let i = 0; i < 20; i++) limiter.consumeSync(`key:${i}`, 10);
    store.clear();
    expect([store.size, store.evictions]).toEqual([0, 0]);
    expect(limiter.consumeSync("key:19").remaining).toBe(9);
    expect((await limiter.inspect("key:1")).found).toBe(false);
  });

  it("moves the last bucket into the place of one that is forgotten", async () => {
    const clock = fakeClock();
    for (const log of [false, true]) {
      const limiter = log
        ? memoryRateLimiter({ algorithm: "sliding-log", limit: 10, windowMs: "1h" }, { clock })
        : memoryRateLimiter(policy, { clock });
      for (let i = 0; i < 5; i++) limiter.consumeSync(`key:${i}`, i + 1);
      await limiter.reset("key:1");
      await limiter.reset("key:4");
      await limiter.reset("key:0");
      const left = await Promise.all([0, 1, 2, 3, 4].map(async (i) => (await limiter.peek(`key:${i}`)).remaining));
      expect(left).toEqual([10, 10, 7, 6, 10]);
      expect(limiter.store.size).toBe(2);
    }
  });

  it("refuses a clock that tells no time, and changes nothing", () => {
    let now = 1_800_000_000_000;
    const limiter = memoryRateLimiter(policy, { clock: { now: () => now } });
    limiter.consumeSync("k");
    for (const bad of [
      Number.NaN,
      Infinity,
      -1,
      2 ** 53,
      "soon" as unknown as number,
      undefined as unknown as number,
    ]) {
      now = bad;
      expect(() => limiter.consumeSync("k")).toThrow(expect.objectContaining({ code: "invalid-clock" }));
    }
    now = 1_800_000_000_000.75;
    expect(limiter.consumeSync("k").remaining).toBe(8);
  });

  it("refuses bad options by name", () => {
    const refused = (options: unknown) => () => memoryStore(options as object);
    for (const maxKeys of [0, -1, 0.5, Number.NaN, "10", null, 2 ** 40]) {
      expect(refused({ maxKeys })).toThrow(expect.objectContaining({ option: "maxKeys", received: maxKeys }));
    }
    for (const clock of [{}, 5, null]) expect(refused({ clock })).toThrow(expect.objectContaining({ option: "clock" }));
    expect(refused({ ttl: 5 })).toThrow(expect.objectContaining({ code: "unknown-option", option: "ttl" }));
    expect(refused({ policy })).toThrow(/createLimiter/);
    expect(refused(null)).toThrow(expect.objectContaining({ code: "invalid-option" }));
  });

  it("fails after dispose, for every limiter on it", async () => {
    const store = memoryStore();
    const limiter = createLimiter({ policy, store });
    await store.dispose();
    await store.dispose();
    expect(() => limiter.consumeSync("k")).toThrow(expect.objectContaining({ code: "disposed" }));
    await expect(limiter.reset("k")).rejects.toMatchObject({ code: "disposed" });
  });

  it("holds no timer, so that a process can end", () => {
    const timers = process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
    for (let i = 0; i < 100; i++) memoryRateLimiter(policy).consumeSync("k");
    expect(process.getActiveResourcesInfo().filter((name) => name === "Timeout")).toHaveLength(timers);
  });
});
