/** Tests the background queue of settlements. Time is fake. */
import { createLimiter, type HoldDecision, hold, type LimiterEvent, memoryStore, type Policy } from "sluice";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type FlakyStore, flakyStore } from "../../test/flaky-store.ts";
import { queueOf } from "./settlement-queue.ts";

const policy: Policy = { capacity: 10_000, tokensPerSecond: "1/h", name: "tokens" };
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

function limiterOn(store: FlakyStore) {
  return createLimiter({ policy, store, onEvent: (event) => void events.push(event) });
}

function holdOf(decision: HoldDecision) {
  if (!decision.allowed) throw new Error("denied");
  return decision.hold;
}

const losses = () => events.filter(({ type }) => type === "settle-lost" || type === "hold-lost");

describe("the settlement queue", () => {
  it("retries with delays from 250 ms that double up to 5 s", async () => {
    const held = holdOf(await hold(limiterOn(store), "k", 5, { forMs: "1h" }));
    store.mode = "fail";
    await held.settle(1);
    const attempts: number[] = [];
    const apply = store.apply.bind(store);
    const start = performance.now();
    // The circuit is open after some failures, and then lets one probe through per second.
    store.apply = (groups, call) => {
      attempts.push(performance.now() - start);
      return apply(groups, call);
    };
    await advance(60_000);
    const expected = [250, 750, 1750, 3750, 7750, 12_750, 17_750, 22_750, 27_750, 32_750, 37_750, 42_750, 47_750];
    expect(attempts.slice(0, expected.length)).toEqual(expected);
    store.mode = "decide";
    await advance(5000);
    expect(queueOf(store).size).toBe(0);
    expect(await limiterOn(store).peek("k")).toMatchObject({ remaining: 9999 });
  });

  it("has at most 1000 entries, and reports the oldest ones as lost", async () => {
    const limiter = limiterOn(store);
    const holds = [];
    for (let i = 0; i < 1003; i++) holds.push(holdOf(await hold(limiter, `k${i}`, 5, { forMs: "1h" })));
    store.mode = "fail";
    await Promise.all(holds.map((hold) => hold.settle(1)));
    expect(queueOf(store).size).toBe(1000);
    expect(losses()).toHaveLength(3);
    store.mode = "decide";
    await advance(20_000);
    expect(queueOf(store).size).toBe(0);
    expect(losses()).toHaveLength(3);
    expect(await limiter.peek("k0")).toMatchObject({ held: 5 });
    expect(await limiter.peek("k3")).toMatchObject({ remaining: 9999 });
  });

  it("keeps one entry per hold, and drops it when a newer call has reached the store", async () => {
    const limiter = limiterOn(store);
    const held = holdOf(await hold(limiter, "k", 5, { forMs: "1h" }));
    store.mode = "fail";
    await held.renew({ amount: 7 });
    await held.settle(1);
    await held.settle(2);
    expect(queueOf(store).size).toBe(1);
    store.mode = "decide";
    await advance(1100);
    expect(queueOf(store).size).toBe(0);
    expect(await limiter.peek("k")).toMatchObject({ remaining: 9998 });
    expect(losses()).toEqual([]);
  });

  it("is shared by stores of one origin, and separate from others", () => {
    const origin = {};
    const [a, b] = [flakyStore(), flakyStore()].map((store) => Object.assign(store, { origin })) as [
      FlakyStore,
      FlakyStore,
    ];
    expect(queueOf(a)).toBe(queueOf(b));
    expect(queueOf(a)).not.toBe(queueOf(flakyStore()));
  });

  it("reports a settlement as lost if the store rejects it whenever it is sent", async () => {
    const limiter = limiterOn(store);
    const held = holdOf(await hold(limiter, "k", 5, { forMs: "1h" }));
    store.mode = "fail";
    await held.settle(1);
    const disposed = memoryStore();
    await disposed.dispose();
    store.apply = (groups) => disposed.apply(groups);
    await advance(2000);
    expect(losses()).toMatchObject([{ type: "settle-lost", cost: 1 }]);
    expect(queueOf(store).size).toBe(0);
  });
});
