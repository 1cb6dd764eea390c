/** Tests limiters whose store is slow or unavailable. Time is fake. */
import { combine, createLimiter, type Decision, type LimiterEvent, memoryStore, type Policy } from "sluice";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { flakyStore } from "../../test/flaky-store.ts";

const policy: Policy = { capacity: 10, tokensPerSecond: 10, name: "api" };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Advances time and runs the timers that are due. */
const advance = (ms: number) => vi.advanceTimersByTimeAsync(ms);

/** Opens the circuit of a limiter's store. */
async function openCircuit(limiter: { consume(key: string): Promise<unknown> }): Promise<void> {
  for (let i = 0; i < 5; i++) await limiter.consume(`breaker ${i}`);
}

describe("onStoreError", () => {
  it("local: decides by the same policy in this process and marks decisions as degraded", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const limiter = createLimiter({ policy, store });
    const decisions: Decision[] = [];
    for (let i = 0; i < 12; i++) decisions.push(await limiter.consume("k"));
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(10);
    expect(decisions.every(({ degraded }) => degraded)).toBe(true);
    expect(decisions[10]).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 100, degraded: true });
    expect(await limiter.peek("k")).toMatchObject({ allowed: false, degraded: true });
    expect(await limiter.consume("k", 11)).toMatchObject({ allowed: false, retryAfterMs: null, degraded: true });
  });

  it("local: divides capacity and rate by the number of instances", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const limiter = createLimiter({ policy, store, instances: 4 });
    expect(await limiter.consume("k", 2)).toMatchObject({ allowed: true, limit: 2, remaining: 0 });
    expect(await limiter.consume("k")).toMatchObject({ allowed: false, retryAfterMs: 400 });
    await advance(400);
    expect(await limiter.consume("k")).toMatchObject({ allowed: true });
    // A cost above the share of this process is not null: the store may allow it after it recovers.
    const large = await limiter.consume("k", 5);
    expect(large.allowed).toBe(false);
    expect(large.retryAfterMs).toBeGreaterThanOrEqual(1);
    expect((await limiter.consume("k", 11)).retryAfterMs).toBeNull();
    for (const windows of ["fixed-window", "sliding-window", "sliding-log"] as const) {
      const shared = createLimiter({ policy: { algorithm: windows, limit: 9, windowMs: 1000 }, store, instances: 4 });
      expect(await shared.consume("k", 2)).toMatchObject({ allowed: true, limit: 2, remaining: 0 });
      expect((await shared.consume("k")).allowed).toBe(false);
    }
    const small = createLimiter({ policy: { capacity: 2, tokensPerSecond: 1 }, store, instances: 100 });
    expect(await small.consume("k")).toMatchObject({ allowed: true, limit: 1 });
  });

  it("local: keeps its bucket after recovery, so a flapping store admits no more", async () => {
    const store = flakyStore();
    const limiter = createLimiter({ policy: { ...policy, tokensPerSecond: "1/h" }, store });
    let local = 0;
    for (let flap = 0; flap < 20; flap++) {
      store.mode = "fail";
      for (let i = 0; i < 20; i++) {
        const { allowed, degraded } = await limiter.consume("k");
        if (allowed && degraded) local++;
      }
      store.mode = "decide";
      await advance(1100);
      await limiter.consume("k");
    }
    expect(local).toBe(10);
  });

  it("open: allows with the full limit remaining", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const limiter = createLimiter({ policy, store, onStoreError: "open" });
    for (let i = 0; i < 50; i++) {
      expect(await limiter.consume("k")).toEqual({
        allowed: true,
        policy: "api",
        limit: 10,
        remaining: 10,
        resetAfterMs: 0,
        nextAfterMs: 0,
        degraded: true,
        source: "open",
      });
    }
    expect(await limiter.consume("k", 11)).toMatchObject({ allowed: false, retryAfterMs: null, degraded: true });
  });

  it("closed: denies as unavailable until the next probe, but allows cost 0", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const limiter = createLimiter({ policy, store, onStoreError: "closed" });
    await openCircuit(limiter);
    await advance(300);
    expect(await limiter.consume("k")).toEqual({
      allowed: false,
      policy: "api",
      limit: 10,
      remaining: 0,
      resetAfterMs: 700,
      nextAfterMs: 700,
      retryAfterMs: 700,
      unavailable: true,
      source: "closed",
    });
    expect(await limiter.consume("k", 0)).toMatchObject({ allowed: true, degraded: true });
  });

  it("throw: rejects with the cause", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const limiter = createLimiter({ policy, store, onStoreError: "throw" });
    const error = await limiter.consume("k").catch((error: unknown) => error);
    expect(error).toMatchObject({ code: "store-unavailable", message: expect.stringContaining("The store failed") });
    expect((error as Error).cause).toMatchObject({ message: "connection lost" });
    await expect(limiter.refund("k", 1)).rejects.toMatchObject({ code: "store-unavailable" });
  });

  it("rejects reset and inspect in every mode", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const limiter = createLimiter({ policy, store });
    await expect(limiter.reset("k")).rejects.toMatchObject({ code: "store-unavailable" });
    await expect(limiter.inspect("k")).rejects.toMatchObject({ code: "store-unavailable" });
    const both = combine([limiter, createLimiter({ policy: { ...policy, name: "b" }, store })]);
    await expect(both.reset("k")).rejects.toMatchObject({ code: "store-unavailable" });
    await expect(both.inspect("k")).rejects.toMatchObject({ code: "store-unavailable" });
  });

  it("rejects unknown values", () => {
    const bad = (options: object) => () => createLimiter({ policy, ...options });
    for (const [option, value] of [
      ["onStoreError", "allow"],
      ["deadlineMs", 0],
      ["deadlineMs", "soon"],
      ["instances", 0],
      ["instances", 1.5],
      ["localDenialMs", -1],
      ["onEvent", "log"],
    ] as const) {
      expect(bad({ [option]: value }), option).toThrow(expect.objectContaining({ option }));
    }
    // A memory store accepts the same options, so one configuration works everywhere.
    expect(() =>
      createLimiter({ policy, store: memoryStore(), onStoreError: "closed", deadlineMs: "1s" }),
    ).not.toThrow();
  });
});

describe("the deadline", () => {
  it("starts with the call and ends every call", async () => {
    const store = flakyStore();
    store.mode = "hang";
    const limiter = createLimiter({ policy, store, onStoreError: "closed" });
    let settled = false;
    const decision = limiter.consume("k").finally(() => {
      settled = true;
    });
    await advance(249);
    expect(settled).toBe(false);
    await advance(20);
    expect(settled).toBe(true);
    expect(await decision).toMatchObject({ unavailable: true });
  });

  it("drops late calls, which are neither sent nor counted", async () => {
    const store = flakyStore();
    store.mode = "hang";
    const limiter = createLimiter({ policy, store, deadlineMs: 50 });
    const late = limiter.consume("k");
    await advance(70);
    expect(await late).toMatchObject({ degraded: true });
    store.release();
    await advance(0);
    expect(store.groups).toHaveLength(0);
  });

  it("covers every stage of a charge on two stores", async () => {
    const [first, second] = [flakyStore(), flakyStore()];
    const both = combine([
      createLimiter({ policy, store: first, onStoreError: "closed" }),
      createLimiter({ policy: { ...policy, name: "b" }, store: second, onStoreError: "closed" }),
    ]);
    second.mode = "hang";
    const decision = both.consume("k");
    await advance(270);
    expect(await decision).toMatchObject({ allowed: false, unavailable: true });
  });

  it("leaves no timer running", async () => {
    const store = flakyStore();
    const limiter = createLimiter({ policy, store });
    for (let i = 0; i < 100; i++) await limiter.consume(`k${i}`);
    await advance(50);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("the breaker", () => {
  it("opens after 5 consecutive failures, allows a probe after a second, and closes if it succeeds", async () => {
    const store = flakyStore();
    const events: LimiterEvent[] = [];
    const limiter = createLimiter({ policy, store, onEvent: (event) => events.push(event) });
    store.mode = "fail";
    await openCircuit(limiter);
    expect(store.calls).toBe(5);
    for (let i = 0; i < 100; i++) expect((await limiter.consume(`x${i}`)).degraded).toBe(true);
    expect(store.calls).toBe(5);
    await advance(1000);
    await Promise.all(Array.from({ length: 20 }, (_, i) => limiter.consume(`y${i}`)));
    expect(store.calls, "one probe").toBe(6);
    await advance(999);
    await limiter.consume("z");
    expect(store.calls).toBe(6);
    store.mode = "decide";
    await advance(1);
    expect((await limiter.consume("z")).degraded).toBeUndefined();
    expect((await limiter.consume("z")).degraded).toBeUndefined();
    expect(events).toEqual([
      { type: "store-down", policy: "api", error: expect.objectContaining({ code: "store-unavailable" }) },
      { type: "store-up", policy: "api", downMs: 2000 },
    ]);
  });

  it("counts timeouts as failures, and only consecutive failures", async () => {
    const store = flakyStore();
    const limiter = createLimiter({ policy, store, deadlineMs: 50 });
    for (let i = 0; i < 10; i++) {
      store.mode = i % 5 === 4 ? "decide" : "fail";
      await limiter.consume(`k${i}`);
    }
    expect(store.calls).toBe(10);
    store.mode = "hang";
    const slow = Array.from({ length: 5 }, (_, i) => limiter.consume(`s${i}`));
    await advance(70);
    await Promise.all(slow);
    await limiter.consume("k");
    expect(store.calls).toBe(15);
  });

  it("is shared by all limiters of a store and emits no events for disposed ones", async () => {
    const store = flakyStore();
    const events: string[] = [];
    const limiters = ["a", "b", "c"].map((name) =>
      createLimiter({
        policy: { ...policy, name },
        store,
        onEvent: ({ type, policy }) => events.push(`${policy} ${type}`),
      }),
    );
    await limiters[2]?.dispose();
    store.mode = "fail";
    await openCircuit(limiters[0] as (typeof limiters)[0]);
    expect(events).toEqual(["a store-down", "b store-down"]);
    expect((await limiters[1]?.consume("k"))?.degraded).toBe(true);
    expect(store.calls).toBe(5);
  });

  it("ignores a listener that throws", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const limiter = createLimiter({
      policy,
      store,
      onEvent: () => {
        throw new Error("listener");
      },
    });
    await openCircuit(limiter);
    expect((await limiter.consume("k")).degraded).toBe(true);
  });
});

describe("a store that fails now and then", () => {
  it("emits degraded with the first reply, then once a minute with the number of failures", async () => {
    const store = flakyStore();
    const events: LimiterEvent[] = [];
    const limiter = createLimiter({ policy, store, onStoreError: "open", onEvent: (event) => events.push(event) });
    let uncounted = 0;
    const everyThird = async (calls: number) => {
      for (let i = 1; i <= calls; i++) {
        store.mode = i % 3 === 0 ? "fail" : "decide";
        if ((await limiter.consume(`k${i}`)).source === "open") uncounted++;
        await advance(10);
      }
      store.mode = "decide";
      await limiter.consume("k");
    };
    await everyThird(300);
    const error = expect.objectContaining({ code: "store-unavailable" });
    expect([uncounted, events]).toEqual([100, [{ type: "degraded", policy: "api", error, count: 1 }]]);
    await advance(60_000);
    await everyThird(3);
    expect(events.slice(1)).toEqual([{ type: "degraded", policy: "api", error, count: 100 }]);
  });

  it("emits degraded for failures of a store with shards, when they end", async () => {
    const store = Object.assign(flakyStore(), { failsPerShard: true, shardOf: (key: string) => key });
    const events: string[] = [];
    const limiter = createLimiter({ policy, store, onEvent: ({ type }) => events.push(type) });
    store.mode = "fail";
    await limiter.consume("a");
    store.mode = "decide";
    await limiter.consume("b");
    expect(events).toEqual([]);
    await limiter.consume("a");
    expect(events).toEqual(["degraded"]);
  });

  it("emits store-down alone for an outage", async () => {
    const store = flakyStore();
    const events: string[] = [];
    const limiter = createLimiter({ policy, store, onEvent: ({ type }) => events.push(type) });
    store.mode = "fail";
    await openCircuit(limiter);
    store.mode = "decide";
    await advance(1000);
    await limiter.consume("k");
    expect(events).toEqual(["store-down", "store-up"]);
  });
});
