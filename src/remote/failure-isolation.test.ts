/** Tests that limiters, stores and listeners do not affect each other when a store fails. Time is fake. */
import { combine, consumeAll, createLimiter, type LimiterEvent, type Policy } from "sluice";
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

describe("several limits", () => {
  it("fall back together, each by its own onStoreError", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const of = (name: string, onStoreError: "local" | "open" | "closed" | "throw") =>
      createLimiter({ policy: { ...policy, name }, store, onStoreError });
    const [local, open, closed, thrown] = [of("l", "local"), of("o", "open"), of("c", "closed"), of("t", "throw")];
    expect(await combine([local, open]).consume("k", 4)).toMatchObject({ allowed: true, degraded: true, remaining: 6 });
    expect(await combine([local, closed]).consume("k", 4)).toMatchObject({ allowed: false, unavailable: true });
    // The denial of the other part took nothing here.
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

  it("refund the first store when the second denies or fails", async () => {
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

  it("report a lost refund on two stores", async () => {
    const [first, second] = [flakyStore(), flakyStore()];
    const events: LimiterEvent[] = [];
    const a = createLimiter({ policy, store: first, onEvent: (event) => events.push(event) });
    const b = createLimiter({ policy: { ...policy, capacity: 10, name: "b" }, store: second });
    const take = first.apply.bind(first);
    first.apply = async (groups, call) => {
      if (groups[0]?.[0]?.mode === "refund") throw new Error("connection lost");
      return take(groups, call);
    };
    const takeSecond = second.apply.bind(second);
    second.apply = async (groups, call) => {
      // Another caller was faster.
      if (groups[0]?.[0]?.mode === "take") await takeSecond([[{ ...groups[0][0], cost: 10 }]]);
      return takeSecond(groups, call);
    };
    expect(await combine([a, b]).consume("k", 3)).toMatchObject({ allowed: false, policy: "b" });
    expect(events).toEqual([{ type: "refund-lost", policy: "api", cost: 3, error: expect.anything() }]);
  });
});

describe("isolation of limiters, stores and listeners", () => {
  it("causes no unhandled rejection for a listener that rejects", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const unhandled = vi.fn();
    process.on("unhandledRejection", unhandled);
    const limiter = createLimiter({ policy, store, onEvent: async () => Promise.reject(new Error("listener")) });
    await openCircuit(limiter);
    vi.useRealTimers();
    await new Promise((resolve) => setTimeout(resolve, 5));
    process.off("unhandledRejection", unhandled);
    expect(unhandled).not.toHaveBeenCalled();
  });

  it("does not count a hanging store as a failure of another store in the same charge", async () => {
    const [healthy, hanging] = [flakyStore(), flakyStore()];
    const events: string[] = [];
    const onEvent = ({ type, policy }: LimiterEvent) => events.push(`${policy} ${type}`);
    const a = createLimiter({ policy: { ...policy, name: "a" }, store: healthy, onEvent });
    const b = createLimiter({ policy: { ...policy, name: "b" }, store: hanging, onEvent });
    const take = healthy.apply.bind(healthy);
    healthy.apply = async (groups, call) => {
      await new Promise((resolve) => setTimeout(resolve, 30));
      return take(groups, call);
    };
    hanging.mode = "hang";
    const all = Promise.all(Array.from({ length: 6 }, () => combine([a, b]).consume("k")));
    await advance(600);
    expect((await all).every(({ degraded }) => degraded)).toBe(true);
    expect(events).toEqual(["b store-down"]);
  });

  it.each(["open", "local"] as const)(
    "%s: keeps using a healthy store while another one hangs",
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
      await advance(600);
      const decisions = await all;
      expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(1);
      expect((await a.peek("k")).remaining).toBe(0);
    },
  );

  it("does not block other limiters while a limiter with a long deadline probes the store", async () => {
    const store = flakyStore();
    const slow = createLimiter({ policy: { ...policy, name: "slow" }, store, deadlineMs: "1h" });
    const quick = createLimiter({ policy, store });
    store.mode = "fail";
    await openCircuit(quick);
    await advance(1000);
    store.mode = "hang";
    void slow.consume("k");
    store.mode = "decide";
    await advance(1000);
    expect((await quick.consume("k")).degraded).toBeUndefined();
  });

  it("takes nothing from a local part when an open part can never fit", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const local = createLimiter({ policy: { ...policy, capacity: 100, name: "l" }, store });
    const open = createLimiter({ policy: { ...policy, capacity: 5, name: "o" }, store, onStoreError: "open" });
    const both = combine([local, open]);
    expect(await both.consume("k", 10)).toMatchObject({ allowed: false, retryAfterMs: null });
    expect((await local.peek("k")).remaining).toBe(100);
  });

  it("reports a store that returns no decisions", async () => {
    const store = { ...flakyStore(), apply: async () => [] };
    await expect(createLimiter({ policy, store }).consume("k")).rejects.toMatchObject({ option: "store" });
  });
});

describe("a lost refund", () => {
  it("is reported and not thrown, except with onStoreError throw", async () => {
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
