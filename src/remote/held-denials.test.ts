/** Tests cached denials beside holds and penalties, which another caller can end. Time is fake. */
import {
  block,
  combine,
  concurrency,
  createLimiter,
  type HoldDecision,
  hold,
  type Policy,
  penalty,
  strike,
  unblock,
} from "sluice";
import { fakeClock } from "sluice/testing";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type FlakyStore, flakyStore } from "../../test/flaky-store.ts";

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

/** Number of calls of the store that an action makes. */
async function callsOf(action: () => Promise<unknown>): Promise<number> {
  const before = store.calls;
  await action();
  return store.calls - before;
}

function holdOf(decision: HoldDecision) {
  if (!decision.allowed) throw new Error("denied");
  return decision.hold;
}

const policy: Policy = { capacity: 10, tokensPerSecond: 10, name: "api" };

describe("cached denials beside holds", () => {
  it("are replayed for earliestRetryMs, because a hold may be settled at any time", async () => {
    const limiter = createLimiter({ policy, store });
    await limiter.consume("k", 7);
    holdOf(await hold(limiter, "k", 3, { forMs: "1m" }));
    const denied = await limiter.consume("k", 5);
    expect(denied).toMatchObject({ allowed: false, earliestRetryMs: 200 });
    expect(denied.retryAfterMs).toBeGreaterThan(200);
    await advance(100);
    expect(await callsOf(() => limiter.consume("k", 5))).toBe(0);
    expect(await limiter.consume("k", 5)).toMatchObject({ source: "cache", earliestRetryMs: 100, held: 3 });
    await advance(98);
    expect(await callsOf(() => limiter.consume("k", 5))).toBe(1);
  });

  it("are not replayed for another cost", async () => {
    const limiter = createLimiter({ policy, store });
    await limiter.consume("k", 7);
    holdOf(await hold(limiter, "k", 3, { forMs: "1m" }));
    await limiter.consume("k", 5);
    expect(await callsOf(() => limiter.consume("k", 6))).toBe(1);
    expect(await callsOf(() => limiter.consume("k", 4))).toBe(1);
  });

  it("are dropped when a hold of the key is settled, cancelled or renewed in this process", async () => {
    const limiter = createLimiter({ policy: { ...policy, tokensPerSecond: "10/h" }, store });
    const held = holdOf(await hold(limiter, "k", 10, { forMs: "1h" }));
    const other = createLimiter({ policy: { ...policy, tokensPerSecond: "10/h", name: "plain" }, store });
    await other.consume("k", 10);
    await other.consume("k");
    for (const free of [() => held.renew({ amount: 9 }), () => held.settle(8)]) {
      expect(await limiter.consume("k", 5)).toMatchObject({ allowed: false });
      await free();
      expect(await callsOf(() => limiter.consume("k", 5))).toBe(1);
    }
    // A denial of another policy stays cached.
    expect(await callsOf(() => other.consume("k"))).toBe(0);
  });

  it("are not used for a concurrency limit, whose leases may end at any time", async () => {
    const limiter = createLimiter({ policy: concurrency(1), store });
    holdOf(await hold(limiter, "k"));
    expect(await hold(limiter, "k")).toMatchObject({ allowed: false, earliestRetryMs: 1 });
    expect(await callsOf(() => hold(limiter, "k"))).toBe(1);
  });

  it("apply to a hold with a new id, and not to one that may exist already", async () => {
    const limiter = createLimiter({ policy: { ...policy, tokensPerSecond: "1/h" }, store });
    await limiter.consume("k", 10);
    await limiter.consume("k");
    expect(await callsOf(() => hold(limiter, "k"))).toBe(0);
    expect(await callsOf(() => hold(limiter, "k", 1, { id: "job" }))).toBe(1);
  });
});

describe("cached denials beside penalties", () => {
  const login = penalty({ strikes: 3, blockMs: "10h", name: "login" });
  const rate: Policy = { capacity: 1, tokensPerSecond: "1/h", name: "rate" };

  it("are not used until the key is blocked, so a flood costs as many calls as it has strikes", async () => {
    const guard = createLimiter({ policy: login, store });
    const limiter = combine([createLimiter({ policy: rate, store }), guard]);
    await limiter.consume("k");
    expect(
      await callsOf(async () => {
        for (let i = 0; i < 100; i++) expect((await limiter.consume("k")).allowed).toBe(false);
      }),
    ).toBe(3);
    expect(await limiter.consume("k")).toMatchObject({ policy: "login", source: "cache" });
    // A replayed denial records no strike.
    expect(await guard.inspect("k")).toMatchObject({ strikes: 3, blockedMs: 36_000_000 });
  });

  it("are dropped when the key is unblocked or reset", async () => {
    const guard = createLimiter({ policy: login, store });
    const limiter = combine([createLimiter({ policy, store }), guard]);
    for (const free of [() => unblock(guard, "k"), () => guard.reset("k")]) {
      await block(guard, "k", "1h");
      await advance(1);
      expect(await limiter.consume("k")).toMatchObject({ allowed: false, policy: "login" });
      expect(await callsOf(() => limiter.consume("k"))).toBe(0);
      await free();
      expect(await limiter.consume("k")).toMatchObject({ allowed: true });
    }
  });

  it("are replaced by a block that was recorded by hand", async () => {
    const guard = createLimiter({ policy: login, store });
    expect(await strike(guard, "k", 2)).toMatchObject({ allowed: true });
    expect(await strike(guard, "k")).toMatchObject({ allowed: false, retryAfterMs: 36_000_000 });
    expect(await guard.consume("k")).toMatchObject({ allowed: false });
    expect(await guard.inspect("k")).toMatchObject({ strikes: 3 });
  });

  it("answer for a blocked key without a round trip, also if the penalty is alone", async () => {
    const guard = createLimiter({ policy: login, store });
    await block(guard, "k", "1h");
    await advance(1);
    expect(await guard.consume("k")).toMatchObject({ allowed: false });
    expect(await callsOf(() => guard.consume("k"))).toBe(0);
    await unblock(guard, "k");
    expect(await guard.consume("k")).toMatchObject({ allowed: true });
  });
});
