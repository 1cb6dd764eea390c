/** What limiters do when their store is slow or away. Time is fake: nothing here waits. */
import { combine, consumeAll, createLimiter, type Decision, type LimiterEvent, memoryStore, type Policy } from "sluice";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { flakyStore } from "../../test/flaky-store.ts";

const policy: Policy = { capacity: 10, tokensPerSecond: 10, name: "api" };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Lets time pass and what waits for it happen. */
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

/** Makes a store's breaker open. */
async function breakDown(limiter: { consume(key: string): Promise<unknown> }): Promise<void> {
  for (let i = 0; i < 5; i++) await limiter.consume(`breaker ${i}`);
}

describe("onStoreError", () => {
  it("local: decides by the same policy in this process, and says so", async () => {
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

  it("local: is divided by the number of instances, in burst and in rate", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const limiter = createLimiter({ policy, store, instances: 4 });
    expect(await limiter.consume("k", 2)).toMatchObject({ allowed: true, limit: 2, remaining: 0 });
    expect(await limiter.consume("k")).toMatchObject({ allowed: false, retryAfterMs: 400 });
    await pass(400);
    expect(await limiter.consume("k")).toMatchObject({ allowed: true });
    // More than this process's share is not "never": the store may allow it when it is back.
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

  it("local: the bucket is kept at recovery, so that flapping lets no more through", async () => {
    const store = flakyStore();
    const limiter = createLimiter({ policy: { ...policy, tokensPerSecond: "1/h" }, store });
    let local = 0;
    for (let flap = 0; flap < 20; flap++) {
      store.mode = "fail";
      for (let i = 0; i < 20; i++) {
        const { allowed, degraded } = await limiter.consume("k");
        if (allowed && degraded) local++;
      }
      store.mode = "answer";
      await pass(1100);
      await limiter.consume("k");
    }
    expect(local).toBe(10);
  });

  it("open: allows, with everything remaining", async () => {
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

  it("closed: denies as unavailable until the next probe, and what is free stays free", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const limiter = createLimiter({ policy, store, onStoreError: "closed" });
    await breakDown(limiter);
    await pass(300);
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

  it("reset and inspect are never pretended: they reject", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const limiter = createLimiter({ policy, store });
    await expect(limiter.reset("k")).rejects.toMatchObject({ code: "store-unavailable" });
    await expect(limiter.inspect("k")).rejects.toMatchObject({ code: "store-unavailable" });
    const both = combine([limiter, createLimiter({ policy: { ...policy, name: "b" }, store })]);
    await expect(both.reset("k")).rejects.toMatchObject({ code: "store-unavailable" });
    await expect(both.inspect("k")).rejects.toMatchObject({ code: "store-unavailable" });
  });

  it("refuses what it does not know", () => {
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
    // One configuration from a laptop to production: a store that can't fail takes the same options.
    expect(() =>
      createLimiter({ policy, store: memoryStore(), onStoreError: "closed", deadlineMs: "1s" }),
    ).not.toThrow();
  });
});

describe("the deadline", () => {
  it("runs from the call, and nothing hangs", async () => {
    const store = flakyStore();
    store.mode = "hang";
    const limiter = createLimiter({ policy, store, onStoreError: "closed" });
    let settled = false;
    const decision = limiter.consume("k").finally(() => {
      settled = true;
    });
    await pass(249);
    expect(settled).toBe(false);
    await pass(20);
    expect(settled).toBe(true);
    expect(await decision).toMatchObject({ unavailable: true });
  });

  it("what comes too late is not sent any more, and not counted", async () => {
    const store = flakyStore();
    store.mode = "hang";
    const limiter = createLimiter({ policy, store, deadlineMs: 50 });
    const late = limiter.consume("k");
    await pass(70);
    expect(await late).toMatchObject({ degraded: true });
    store.release();
    await pass(0);
    expect(store.groups).toHaveLength(0);
  });

  it("covers all stages of a charge over two stores", async () => {
    const [first, second] = [flakyStore(), flakyStore()];
    const both = combine([
      createLimiter({ policy, store: first, onStoreError: "closed" }),
      createLimiter({ policy: { ...policy, name: "b" }, store: second, onStoreError: "closed" }),
    ]);
    second.mode = "hang";
    const decision = both.consume("k");
    await pass(270);
    expect(await decision).toMatchObject({ allowed: false, unavailable: true });
  });

  it("leaves no timer behind", async () => {
    const store = flakyStore();
    const limiter = createLimiter({ policy, store });
    for (let i = 0; i < 100; i++) await limiter.consume(`k${i}`);
    await pass(50);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe("the breaker", () => {
  it("opens after 5 faults in a row, lets one call try after a second, and closes when that passes", async () => {
    const store = flakyStore();
    const events: LimiterEvent[] = [];
    const limiter = createLimiter({ policy, store, onEvent: (event) => events.push(event) });
    store.mode = "fail";
    await breakDown(limiter);
    expect(store.calls).toBe(5);
    for (let i = 0; i < 100; i++) expect((await limiter.consume(`x${i}`)).degraded).toBe(true);
    expect(store.calls).toBe(5);
    await pass(1000);
    await Promise.all(Array.from({ length: 20 }, (_, i) => limiter.consume(`y${i}`)));
    expect(store.calls, "one probe").toBe(6);
    await pass(999);
    await limiter.consume("z");
    expect(store.calls).toBe(6);
    store.mode = "answer";
    await pass(1);
    expect((await limiter.consume("z")).degraded).toBeUndefined();
    expect((await limiter.consume("z")).degraded).toBeUndefined();
    expect(events).toEqual([
      { type: "store-down", policy: "api", error: expect.objectContaining({ code: "store-unavailable" }) },
      { type: "store-up", policy: "api", downMs: 2000 },
    ]);
  });

  it("counts timeouts as faults, and only faults in a row", async () => {
    const store = flakyStore();
    const limiter = createLimiter({ policy, store, deadlineMs: 50 });
    for (let i = 0; i < 10; i++) {
      store.mode = i % 5 === 4 ? "answer" : "fail";
      await limiter.consume(`k${i}`);
    }
    expect(store.calls).toBe(10);
    store.mode = "hang";
    const slow = Array.from({ length: 5 }, (_, i) => limiter.consume(`s${i}`));
    await pass(70);
    await Promise.all(slow);
    await limiter.consume("k");
    expect(store.calls).toBe(15);
  });

  it("is one per store: all its limiters are told, and none that was disposed of", async () => {
    const store = flakyStore();
    const told: string[] = [];
    const limiters = ["a", "b", "c"].map((name) =>
      createLimiter({
        policy: { ...policy, name },
        store,
        onEvent: ({ type, policy }) => told.push(`${policy} ${type}`),
      }),
    );
    await limiters[2]?.dispose();
    store.mode = "fail";
    await breakDown(limiters[0] as (typeof limiters)[0]);
    expect(told).toEqual(["a store-down", "b store-down"]);
    expect((await limiters[1]?.consume("k"))?.degraded).toBe(true);
    expect(store.calls).toBe(5);
  });

  it("a listener that throws changes nothing", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const limiter = createLimiter({
      policy,
      store,
      onEvent: () => {
        throw new Error("listener");
      },
    });
    await breakDown(limiter);
    expect((await limiter.consume("k")).degraded).toBe(true);
  });
});

describe("several limits", () => {
  it("fall back together, each as its own limiter wants", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const of = (name: string, onStoreError: "local" | "open" | "closed" | "throw") =>
      createLimiter({ policy: { ...policy, name }, store, onStoreError });
    const [local, open, closed, thrown] = [of("l", "local"), of("o", "open"), of("c", "closed"), of("t", "throw")];
    expect(await combine([local, open]).consume("k", 4)).toMatchObject({ allowed: true, degraded: true, remaining: 6 });
    expect(await combine([local, closed]).consume("k", 4)).toMatchObject({ allowed: false, unavailable: true });
    // What another part denied took nothing here.
    expect((await local.peek("k")).remaining).toBe(6);
    await expect(combine([local, thrown]).consume("k")).rejects.toMatchObject({ code: "store-unavailable" });
    expect((await local.peek("k")).remaining).toBe(6);
    const spent = await consumeAll([
      { limiter: local, key: "k", cost: 6 },
      { limiter: local, key: "other", cost: 1 },
    ]);
    expect(spent).toMatchObject({ allowed: true, degraded: true });
    expect((await local.peek("k")).remaining).toBe(0);
  });

  it("over two stores: what was taken from one is given back when the other denies or fails", async () => {
    const [first, second] = [flakyStore(), flakyStore()];
    const a = createLimiter({ policy: { ...policy, tokensPerSecond: "1/h" }, store: first, localDenialMs: 0 });
    const b = createLimiter({ policy: { ...policy, name: "b" }, store: second, onStoreError: "throw" });
    second.apply = async ([group]) => {
      if (group?.[0]?.mode === "take") throw new Error("connection lost");
      return flakyStore().apply([group ?? []]);
    };
    await expect(combine([a, b]).consume("k", 3)).rejects.toMatchObject({ cause: { message: "connection lost" } });
    expect((await a.peek("k")).remaining).toBe(10);
  });

  it("over two stores: a refund that is lost is told", async () => {
    const [first, second] = [flakyStore(), flakyStore()];
    const events: LimiterEvent[] = [];
    const a = createLimiter({ policy, store: first, onEvent: (event) => events.push(event) });
    const b = createLimiter({ policy: { ...policy, capacity: 10, name: "b" }, store: second });
    const take = first.apply.bind(first);
    first.apply = async (groups, waiting) => {
      if (groups[0]?.[0]?.mode === "refund") throw new Error("connection lost");
      return take(groups, waiting);
    };
    const takeSecond = second.apply.bind(second);
    second.apply = async (groups, waiting) => {
      // Somebody else was faster.
      if (groups[0]?.[0]?.mode === "take") await takeSecond([[{ ...groups[0][0], cost: 10 }]]);
      return takeSecond(groups, waiting);
    };
    expect(await combine([a, b]).consume("k", 3)).toMatchObject({ allowed: false, policy: "b" });
    expect(events).toEqual([{ type: "refund-lost", policy: "api", cost: 3, error: expect.anything() }]);
  });
});

describe("what one must not do to the others", () => {
  it("a listener that rejects is nobody's unhandled rejection", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    const limiter = createLimiter({ policy, store, onEvent: async () => Promise.reject(new Error("listener")) });
    await breakDown(limiter);
    vi.useRealTimers();
    await new Promise((resolve) => setTimeout(resolve, 5));
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });

  it("a store that hangs is not held against another one in the same charge", async () => {
    const [healthy, hanging] = [flakyStore(), flakyStore()];
    const events: string[] = [];
    const onEvent = ({ type, policy }: LimiterEvent) => events.push(`${policy} ${type}`);
    const a = createLimiter({ policy: { ...policy, name: "a" }, store: healthy, onEvent });
    const b = createLimiter({ policy: { ...policy, name: "b" }, store: hanging, onEvent });
    const take = healthy.apply.bind(healthy);
    healthy.apply = async (groups, waiting) => {
      await new Promise((resolve) => setTimeout(resolve, 30));
      return take(groups, waiting);
    };
    hanging.mode = "hang";
    const all = Promise.all(Array.from({ length: 6 }, () => combine([a, b]).consume("k")));
    await pass(600);
    expect((await all).every(({ degraded }) => degraded)).toBe(true);
    expect(events).toEqual(["b store-down"]);
  });

  it.each(["open", "local"] as const)(
    "%s: a store that hangs does not switch off a healthy one",
    async (onStoreError) => {
      const [healthy, hanging] = [flakyStore(), flakyStore()];
      const a = createLimiter({ policy: { capacity: 1, tokensPerSecond: "1/d", name: "a" }, store: healthy });
      const b = createLimiter({
        policy: { capacity: 10_000, tokensPerSecond: "1/d", name: "b" },
        store: hanging,
        onStoreError,
        deadlineMs: 50,
      });
      hanging.mode = "hang";
      const all = Promise.all(
        Array.from({ length: 200 }, () =>
          consumeAll([
            { limiter: a, key: "k" },
            { limiter: b, key: "k" },
          ]),
        ),
      );
      await pass(600);
      const decisions = await all;
      expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(1);
      expect((await a.peek("k")).remaining).toBe(0);
    },
  );

  it("a limiter with a long deadline that tries a store does not hold up the rest", async () => {
    const store = flakyStore();
    const slow = createLimiter({ policy: { ...policy, name: "slow" }, store, deadlineMs: "1h" });
    const quick = createLimiter({ policy, store });
    store.mode = "fail";
    await breakDown(quick);
    await pass(1000);
    store.mode = "hang";
    void slow.consume("k");
    store.mode = "answer";
    await pass(1000);
    expect((await quick.consume("k")).degraded).toBeUndefined();
  });

  it("an open part that can never fit takes nothing from a local one", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const local = createLimiter({ policy: { ...policy, capacity: 100, name: "l" }, store });
    const open = createLimiter({ policy: { ...policy, capacity: 5, name: "o" }, store, onStoreError: "open" });
    const both = combine([local, open]);
    expect(await both.consume("k", 10)).toMatchObject({ allowed: false, retryAfterMs: null });
    expect((await local.peek("k")).remaining).toBe(100);
  });

  it("a store that gives nothing is told by name", async () => {
    const store = { ...flakyStore(), apply: async () => [] };
    await expect(createLimiter({ policy, store }).consume("k")).rejects.toMatchObject({ option: "store" });
  });
});

describe("a lost refund", () => {
  it("is told, not thrown, unless everything is", async () => {
    const store = flakyStore();
    const events: LimiterEvent[] = [];
    const limiter = createLimiter({ policy, store, onEvent: (event) => events.push(event) });
    await limiter.consume("k", 5);
    store.mode = "fail";
    await limiter.refund("k", 2);
    expect(events).toEqual([
      { type: "refund-lost", policy: "api", cost: 2, error: expect.objectContaining({ code: "store-unavailable" }) },
    ]);
  });
});
