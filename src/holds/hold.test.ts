/** Tests holds of limiters whose store is slow or unavailable, and retries in the background. Time is fake. */
import { concurrency, createLimiter, type HoldDecision, hold, type LimiterEvent, type Policy, settle } from "sluice";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type FlakyStore, flakyStore } from "../../test/flaky-store.ts";

const policy: Policy = { capacity: 10, tokensPerSecond: "1/h", name: "tokens" };
let store: FlakyStore;
let events: LimiterEvent[];

beforeEach(() => {
  vi.useFakeTimers();
  store = flakyStore();
  events = [];
});
afterEach(() => {
  vi.useRealTimers();
});

/** Advances time and runs the timers that are due. */
const advance = (ms: number) => vi.advanceTimersByTimeAsync(ms);
const onEvent = (event: LimiterEvent) => void events.push(event);
/** The events besides those about the store itself. */
const losses = () => events.filter(({ type }) => !["store-down", "store-up", "degraded"].includes(type));

function holdOf(decision: HoldDecision) {
  if (!decision.allowed) throw new Error("denied");
  return decision.hold;
}

describe("a hold while the store is unavailable", () => {
  it("local: is held, renewed and settled in this process", async () => {
    const limiter = createLimiter({ policy, store, onEvent });
    store.mode = "fail";
    const decision = await hold(limiter, "k", 6);
    expect(decision).toMatchObject({ allowed: true, remaining: 4, held: 6, degraded: true, source: "local" });
    const ownHold = holdOf(decision);
    expect(await hold(limiter, "k", 5)).toMatchObject({ allowed: false, degraded: true });
    expect(await ownHold.renew({ amount: 7 })).toMatchObject({ allowed: true, held: 7, degraded: true });
    store.mode = "decide";
    expect(await ownHold.settle(2)).toMatchObject({ settled: true, remaining: 8, degraded: true });
    expect(await ownHold.settle(2)).toMatchObject({ settled: false });
    await advance(6000);
    expect(await limiter.peek("k")).toMatchObject({ remaining: 10 });
    expect(losses()).toEqual([]);
  });

  it("local: of a concurrency limit is one of limit / instances", async () => {
    const limiter = createLimiter({ policy: concurrency(8), store, instances: 4 });
    store.mode = "fail";
    const holds = [await hold(limiter, "k"), await hold(limiter, "k")];
    expect(holds).toMatchObject([{ allowed: true, limit: 2 }, { allowed: true }]);
    expect(await hold(limiter, "k")).toMatchObject({ allowed: false, degraded: true });
    await holdOf(holds[0] as HoldDecision).settle();
    expect(await hold(limiter, "k")).toMatchObject({ allowed: true });
  });

  it("open: is allowed, and settling it has no effect", async () => {
    const limiter = createLimiter({ policy, store, onStoreError: "open", onEvent });
    store.mode = "fail";
    const decision = await hold(limiter, "k", 6);
    expect(decision).toMatchObject({ allowed: true, degraded: true, source: "open" });
    const { calls } = store;
    expect(await holdOf(decision).renew()).toMatchObject({ allowed: true, degraded: true });
    expect(await holdOf(decision).settle(3)).toMatchObject({ settled: true, degraded: true });
    expect(store.calls).toBe(calls);
    expect(await hold(limiter, "k", 11)).toMatchObject({ allowed: false, retryAfterMs: null });
    store.mode = "decide";
    await advance(6000);
    expect(await limiter.peek("k")).toMatchObject({ remaining: 10 });
    expect(losses()).toEqual([]);
  });

  it("closed: is denied as unavailable", async () => {
    const limiter = createLimiter({ policy, store, onStoreError: "closed" });
    store.mode = "fail";
    expect(await hold(limiter, "k", 6)).toMatchObject({ allowed: false, unavailable: true, source: "closed" });
  });

  it("throw: rejects", async () => {
    const limiter = createLimiter({ policy, store, onStoreError: "throw" });
    store.mode = "fail";
    await expect(hold(limiter, "k", 6)).rejects.toMatchObject({ code: "store-unavailable" });
  });

  it.each(["local", "open", "closed", "throw"] as const)(
    "%s: is cancelled in the background if its reply was lost",
    async (onStoreError) => {
      const limiter = createLimiter({ policy, store, onStoreError, onEvent });
      store.mode = "lose";
      await hold(limiter, "k", 6).catch(() => {});
      store.mode = "decide";
      expect(await limiter.peek("k")).toMatchObject({ remaining: 4, held: 6 });
      await advance(250);
      expect(await limiter.peek("k")).toMatchObject({ remaining: 10 });
      expect(losses()).toEqual([]);
    },
  );

  it("is cancelled in the background if it has timed out, and the store decided it later", async () => {
    const limiter = createLimiter({ policy, store, deadlineMs: 100 });
    store.mode = "hang";
    const held = hold(limiter, "k", 6);
    await advance(150);
    expect(await held).toMatchObject({ allowed: true, degraded: true });
    store.mode = "decide";
    store.release();
    await advance(1000);
    expect(store.groups).toMatchObject([[{ mode: "settle", cost: 0 }]]);
    expect(await limiter.peek("k")).toMatchObject({ remaining: 10 });
  });

  it("keeps its hold if it is sent again before the cancellation", async () => {
    const limiter = createLimiter({ policy, store, onStoreError: "throw" });
    store.mode = "lose";
    await expect(hold(limiter, "k", 6, { id: "job" })).rejects.toMatchObject({ code: "store-unavailable" });
    store.mode = "decide";
    const ownHold = holdOf(await hold(limiter, "k", 6, { id: "job" }));
    await advance(10_000);
    expect(await limiter.peek("k")).toMatchObject({ held: 6 });
    expect(await ownHold.settle(2)).toMatchObject({ settled: true, remaining: 8 });
  });

  it("with an id of the caller is not cancelled, because it may have existed before", async () => {
    const limiter = createLimiter({ policy, store, onStoreError: "throw" });
    holdOf(await hold(limiter, "k", 6, { id: "job" }));
    store.mode = "lose";
    await expect(hold(limiter, "k", 6, { id: "job" })).rejects.toThrow();
    store.mode = "decide";
    await advance(10_000);
    expect(await settle(limiter, "k", "job", 2)).toMatchObject({ settled: true, remaining: 8 });
  });
});

describe("a settlement while the store is unavailable", () => {
  it.each(["local", "open", "closed"] as const)("%s: is pending, and is applied later", async (onStoreError) => {
    const limiter = createLimiter({ policy, store, onStoreError, onEvent });
    const ownHold = holdOf(await hold(limiter, "k", 6));
    store.mode = "fail";
    expect(await ownHold.settle(2)).toMatchObject({ settled: false, pending: true, unknown: true });
    await advance(700);
    store.mode = "decide";
    await advance(5000);
    const { remaining, held } = await limiter.peek("k");
    expect({ remaining, held }).toEqual({ remaining: 8, held: undefined });
    expect(losses()).toEqual([]);
  });

  it("throw: rejects, and is applied later", async () => {
    const limiter = createLimiter({ policy, store, onStoreError: "throw" });
    const held = holdOf(await hold(limiter, "k", 6));
    store.mode = "fail";
    await expect(held.settle(2)).rejects.toMatchObject({ code: "store-unavailable" });
    store.mode = "decide";
    await advance(5000);
    expect(await limiter.peek("k")).toMatchObject({ remaining: 8 });
  });

  it("is applied once if only the reply was lost", async () => {
    const limiter = createLimiter({ policy, store, onEvent });
    const held = holdOf(await hold(limiter, "k", 6));
    store.mode = "lose";
    expect(await held.settle(2)).toMatchObject({ pending: true });
    store.mode = "decide";
    expect(await limiter.peek("k")).toMatchObject({ remaining: 8 });
    await advance(5000);
    expect(await limiter.peek("k")).toMatchObject({ remaining: 8 });
    expect(losses()).toEqual([]);
  });

  it("is lost if the hold ends first, which is charged in full", async () => {
    const limiter = createLimiter({ policy, store, onEvent });
    const held = holdOf(await hold(limiter, "k", 6, { forMs: 2000 }));
    await advance(1000);
    store.mode = "fail";
    await held.settle(2);
    await advance(999);
    expect(losses()).toEqual([]);
    await advance(5001);
    expect(losses()).toMatchObject([{ type: "settle-lost", policy: "tokens", cost: 2 }]);
    store.mode = "decide";
    await advance(10_000);
    expect(await limiter.peek("k")).toMatchObject({ remaining: 4 });
    expect(losses()).toHaveLength(1);
  });

  it("of a lease that ends first is reported as a lost hold", async () => {
    const limiter = createLimiter({ policy: concurrency(3, { name: "streams" }), store, onEvent });
    const held = holdOf(await hold(limiter, "k", 1, { forMs: 2000 }));
    store.mode = "fail";
    await held.settle();
    await advance(8000);
    expect(losses()).toMatchObject([{ type: "hold-lost", policy: "streams" }]);
  });

  it("cancels like any other", async () => {
    const limiter = createLimiter({ policy, store });
    const held = holdOf(await hold(limiter, "k", 6));
    store.mode = "fail";
    expect(await held.cancel()).toMatchObject({ pending: true });
    store.mode = "decide";
    await advance(500);
    expect(await limiter.peek("k")).toMatchObject({ remaining: 10 });
  });

  it("is replaced by a newer call about the same hold", async () => {
    const limiter = createLimiter({ policy, store });
    const held = holdOf(await hold(limiter, "k", 6));
    store.mode = "fail";
    await held.settle(2);
    await held.settle(5);
    store.mode = "decide";
    await advance(5000);
    expect(await limiter.peek("k")).toMatchObject({ remaining: 5 });
    expect(store.groups.filter(([charge]) => charge?.mode === "settle")).toHaveLength(1);
  });

  it("emits cost-forgiven for what exceeds a debt of one limit", async () => {
    const limiter = createLimiter({ policy, store, onEvent });
    const ownHold = holdOf(await hold(limiter, "k", 6));
    expect(await ownHold.settle(25)).toMatchObject({ settled: true, remaining: 0, held: 10, forgiven: 5 });
    expect(losses()).toMatchObject([{ type: "cost-forgiven", policy: "tokens", cost: 5 }]);
    const pending = holdOf(await hold(limiter, "l", 6));
    store.mode = "fail";
    await pending.settle(23);
    store.mode = "decide";
    await advance(5000);
    expect(losses().slice(1)).toMatchObject([{ type: "cost-forgiven", policy: "tokens", cost: 3 }]);
  });
});

describe("a renewal while the store is unavailable", () => {
  it("is allowed as unknown, and applied later", async () => {
    const limiter = createLimiter({ policy, store, onEvent });
    const ownHold = holdOf(await hold(limiter, "k", 6, { forMs: 3000 }));
    await advance(1000);
    store.mode = "fail";
    expect(await ownHold.renew()).toMatchObject({ allowed: true, degraded: true, unknown: true });
    store.mode = "decide";
    await advance(2900);
    // It would have ended at 3000 ms.
    expect(await limiter.peek("k")).toMatchObject({ held: 6 });
    expect(losses()).toEqual([]);
  });

  it("throw: rejects, and is applied later", async () => {
    const limiter = createLimiter({ policy, store, onStoreError: "throw" });
    const ownHold = holdOf(await hold(limiter, "k", 6, { forMs: 3000 }));
    store.mode = "fail";
    await expect(ownHold.renew({ forMs: "1m" })).rejects.toMatchObject({ code: "store-unavailable" });
    store.mode = "decide";
    await advance(4000);
    expect(await limiter.peek("k")).toMatchObject({ held: 6 });
  });

  it("is lost if the hold ends first", async () => {
    const limiter = createLimiter({ policy, store, onEvent });
    const held = holdOf(await hold(limiter, "k", 6, { forMs: 3000 }));
    store.mode = "fail";
    await held.renew();
    await advance(9000);
    expect(losses()).toMatchObject([{ type: "hold-lost", policy: "tokens" }]);
    store.mode = "decide";
    await advance(10_000);
    expect(await limiter.peek("k")).toMatchObject({ remaining: 4 });
  });

  it("that is lost does not hide the loss of the settlement", async () => {
    const limiter = createLimiter({ policy, store, onEvent });
    const held = holdOf(await hold(limiter, "k", 6, { forMs: 2000 }));
    await advance(1000);
    store.mode = "fail";
    await held.renew();
    await held.settle(2);
    // The hold has ended at 2000 ms, because the renewal has not reached the store.
    await advance(1500);
    store.mode = "decide";
    await advance(10_000);
    expect(await limiter.peek("k")).toMatchObject({ remaining: 4 });
    expect(losses()).toMatchObject([{ type: "settle-lost", cost: 2 }]);
  });

  it("that was applied in the background is the end that a settlement is retried until", async () => {
    const limiter = createLimiter({ policy, store, onEvent });
    const held = holdOf(await hold(limiter, "k", 6, { forMs: 10_000 }));
    await advance(9000);
    store.mode = "fail";
    await held.renew();
    store.mode = "decide";
    await advance(500);
    store.mode = "fail";
    await held.settle(2);
    await advance(2000);
    store.mode = "decide";
    await advance(5000);
    expect(await limiter.peek("k")).toMatchObject({ remaining: 8 });
    expect(losses()).toEqual([]);
  });
});

describe("a settlement that is not a cost", () => {
  it.each([[[]], [{}], [{ total_tokens: 7 }], [null], ["7"], [-1]])(
    "is rejected, and charges nothing: %j",
    async (actual) => {
      for (const limiter of [createLimiter({ policy }), createLimiter({ policy, store })]) {
        const ownHold = holdOf(await hold(limiter, "k", 5));
        await expect(ownHold.settle(actual as never)).rejects.toMatchObject({ code: "invalid-cost", option: "actual" });
        expect((await limiter.peek("k")).held).toBe(5);
        expect(await ownHold.settle(2)).toMatchObject({ settled: true, remaining: 8 });
      }
    },
  );
});
