/** Tests cached denials, which are replayed without a store call. Time is fake. */
import { combine, consumeAll, createLimiter, type Policy } from "sluice";
import { fakeClock } from "sluice/testing";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type FlakyStore, flakyStore } from "../../test/flaky-store.ts";
import { ALGORITHMS, policyOf } from "../testing/subject.ts";

const clock = fakeClock();
let store: FlakyStore;

beforeEach(() => {
  vi.useFakeTimers();
  store = flakyStore(clock);
});
afterEach(() => {
  vi.useRealTimers();
});

/** Advances the store's clock and the timers of this process. */
const advance = async (ms: number): Promise<void> => {
  clock.advance(ms);
  await vi.advanceTimersByTimeAsync(ms);
};

const policy: Policy = { capacity: 10, tokensPerSecond: 10, name: "api" };

describe("cached denials", () => {
  it("replay a denial without a store call until it expires", async () => {
    const limiter = createLimiter({ policy, store });
    await limiter.consume("k", 10);
    expect(await limiter.consume("k")).toMatchObject({ allowed: false, retryAfterMs: 100, resetAfterMs: 1000 });
    const { calls } = store;
    await advance(40);
    expect(await limiter.consume("k")).toEqual({
      allowed: false,
      policy: "api",
      limit: 10,
      remaining: 0,
      resetAfterMs: 960,
      nextAfterMs: 60,
      retryAfterMs: 60,
      source: "cache",
    });
    expect(store.calls).toBe(calls);
    await advance(60);
    expect((await limiter.consume("k")).allowed).toBe(true);
    expect(store.calls).toBe(calls + 1);
  });

  it("let a caller through whose timer fired early after waiting retryAfterMs", async () => {
    const limiter = createLimiter({ policy, store });
    await limiter.consume("k", 10);
    expect(await limiter.consume("k")).toMatchObject({ allowed: false, retryAfterMs: 100 });
    // The store would allow it, but the timers of this process are two milliseconds behind.
    clock.advance(100);
    await vi.advanceTimersByTimeAsync(98);
    expect((await limiter.consume("k")).allowed).toBe(true);
  });

  it("expire after localDenialMs, and 0 turns them off", async () => {
    for (const [localDenialMs, asked] of [
      [200, 2],
      [0, 3],
    ] as const) {
      const slow: Policy = { capacity: 1, tokensPerSecond: "1/h", name: `slow ${localDenialMs}` };
      const limiter = createLimiter({ policy: slow, store, localDenialMs });
      await limiter.consume("k");
      const before = store.calls;
      await limiter.consume("k");
      await advance(199);
      await limiter.consume("k");
      await advance(2);
      await limiter.consume("k");
      expect(store.calls - before, `${localDenialMs}`).toBe(asked);
    }
  });

  it("apply to a greater cost with an exact retryAfterMs, and never to a lower cost", async () => {
    const limiter = createLimiter({ policy, store });
    await limiter.consume("k", 8);
    expect(await limiter.consume("k", 4)).toMatchObject({ allowed: false, retryAfterMs: 200, remaining: 2 });
    const { calls } = store;
    expect(await limiter.consume("k", 5)).toMatchObject({ allowed: false, retryAfterMs: 300 });
    expect(store.calls).toBe(calls);
    expect((await limiter.consume("k", 1)).allowed).toBe(true);
    expect((await limiter.consume("k", 11)).retryAfterMs).toBeNull();
    expect(store.calls).toBe(calls + 2);
  });

  it("end on a refund or reset in this process, and replies in flight do not restore them", async () => {
    const slow: Policy = { capacity: 2, tokensPerSecond: "1/h", name: "slow" };
    const limiter = createLimiter({ policy: slow, store });
    await limiter.consume("k", 2);
    expect((await limiter.consume("k")).allowed).toBe(false);
    await advance(1);
    await limiter.refund("k", 1);
    await advance(1);
    expect((await limiter.consume("k")).allowed).toBe(true);
    expect((await limiter.consume("k")).allowed).toBe(false);
    await advance(1);
    await limiter.reset("k");
    await advance(1);
    expect((await limiter.consume("k", 2)).allowed).toBe(true);
    // A denial is in flight during the refund.
    await advance(1);
    const under = limiter.consume("k");
    await limiter.refund("k", 2);
    await under;
    await advance(1);
    expect((await limiter.consume("k")).allowed).toBe(true);
  });

  it("end with a refund by any limiter of the same bucket, and of no other bucket", async () => {
    const plan = (limit: number): Policy => ({
      ...{ algorithm: "fixed-window", limit, windowMs: "1h" },
      ...{ name: "plan", share: true },
    });
    const [small, large] = [createLimiter({ policy: plan(2), store }), createLimiter({ policy: plan(5), store })];
    await small.consume("k", 2);
    expect((await small.consume("k")).allowed).toBe(false);
    // A cached denial of the smaller plan does not apply to the larger plan of the bucket.
    expect((await large.consume("k")).allowed).toBe(true);
    await advance(1);
    await large.reset("k");
    await advance(1);
    expect((await small.consume("k")).allowed).toBe(true);
  });

  it("are bounded to 20 000 keys during a flood of new keys", async () => {
    const slow: Policy = { capacity: 1, tokensPerSecond: "1/h", name: "slow" };
    const limiter = createLimiter({ policy: slow, store });
    for (let i = 0; i < 20_001; i++) await limiter.consume(`k${i}`);
    for (let i = 0; i < 20_001; i++) await limiter.consume(`k${i}`);
    const { calls } = store;
    await limiter.consume("k20000");
    expect(store.calls).toBe(calls);
    await limiter.consume("k0");
    expect(store.calls).toBe(calls + 1);
  });

  it("include all parts of combine and consumeAll", async () => {
    const burst = createLimiter({ policy: { ...policy, name: "burst" }, store });
    const daily = createLimiter({ policy: { capacity: 12, tokensPerSecond: "1/h", name: "daily" }, store });
    const both = combine([burst, daily]);
    await both.consume("k", 10);
    const first = await both.consume("k", 2);
    const { calls } = store;
    await advance(50);
    const again = await both.consume("k", 2);
    expect(store.calls).toBe(calls);
    expect(again).toMatchObject({ allowed: false, policy: "burst", retryAfterMs: (first.retryAfterMs as number) - 50 });
    expect(again.parts?.map(({ allowed }) => allowed)).toEqual([false, true]);
    await advance(1);
    await burst.refund("k", 5);
    await advance(1);
    expect((await both.consume("k", 2)).allowed).toBe(true);

    const spend = () =>
      consumeAll([
        { limiter: daily, key: "u" },
        { limiter: burst, key: "a", cost: 10 },
      ]);
    expect((await spend()).allowed).toBe(true);
    expect((await spend()).allowed).toBe(false);
    const before = store.calls;
    expect((await spend()).allowed).toBe(false);
    expect(store.calls).toBe(before);
    await advance(1);
    await burst.reset("a");
    await advance(1);
    expect((await spend()).allowed).toBe(true);
  });

  it("are kept apart for a limiter and a combination of it alone, whose decisions have parts", async () => {
    const limiter = createLimiter({ policy, store });
    const combined = combine([limiter]);
    await limiter.consume("k", 10);
    const [single, joint] = [await limiter.consume("k"), await combined.consume("k")];
    const { calls } = store;
    const [singleAgain, jointAgain] = [await limiter.consume("k"), await combined.consume("k")];
    expect(store.calls).toBe(calls);
    expect([single, joint, singleAgain, jointAgain].map(({ parts }) => parts?.length)).toEqual([
      undefined,
      1,
      undefined,
      1,
    ]);
    expect([singleAgain, jointAgain].map(({ source }) => source)).toEqual(["cache", "cache"]);
  });

  it.each(ALGORITHMS)("%s: never deny a call that the store would allow, over random traffic", async (algorithm) => {
    const limiter = createLimiter({ policy: policyOf(algorithm, 5, 1000, "walk"), store });
    const asking = createLimiter({ policy: policyOf(algorithm, 5, 1000, "walk"), store, localDenialMs: 0 });
    let local = 0;
    for (let i = 0; i < 3000; i++) {
      await advance([0, 0, 1, 3, 20, 90, 250][Math.floor(Math.random() * 7)] as number);
      const cost = 1 + Math.floor(Math.random() * 4);
      const expected = await asking.peek("k", cost);
      const { calls } = store;
      const decision = await limiter.consume("k", cost);
      if (store.calls === calls) {
        local++;
        expect(expected.allowed, `step ${i}`).toBe(false);
        expect(decision.retryAfterMs, `step ${i}`).toBeGreaterThanOrEqual(expected.retryAfterMs as number);
        expect(decision.retryAfterMs, `step ${i}`).toBeLessThanOrEqual((expected.retryAfterMs as number) + 1);
      } else expect(decision.allowed, `step ${i}`).toBe(expected.allowed);
    }
    expect(local).toBeGreaterThan(100);
  });
});
