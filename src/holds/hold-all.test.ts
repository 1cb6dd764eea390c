/** Tests holds of several limiters: combinations, holdAll, several stores, and penalties beside them. */
import {
  combine,
  concurrency,
  consumeAll,
  createLimiter,
  type HoldDecision,
  hold,
  holdAll,
  holdSync,
  type LimiterEvent,
  leakyBucket,
  memoryStore,
  type Policy,
  penalty,
  settle,
  slidingLog,
  tokenBucket,
} from "sluice";
import { fakeClock } from "sluice/testing";
import { describe, expect, it } from "vitest";
import { flakyStore } from "../../test/flaky-store.ts";

const clock = fakeClock();
const tokens: Policy = { capacity: 10, tokensPerSecond: "1/h", name: "tokens" };
const login = penalty({ strikes: 2, blockMs: "5h", name: "login" });

function holdOf(decision: HoldDecision) {
  if (!decision.allowed) throw new Error("denied");
  return decision.hold;
}

describe("combine", () => {
  it("holds the same amount of every rate, and 1 of a concurrency limit", async () => {
    const store = memoryStore({ clock });
    const rate = createLimiter({ policy: tokens, store });
    const streams = createLimiter({ policy: concurrency(2, { name: "streams" }), store });
    const both = combine([rate, streams]);
    const hold = holdOf(holdSync(both, "k", 6));
    expect([await rate.peek("k"), await streams.peek("k")]).toMatchObject([{ held: 6 }, { held: 1 }]);
    expect(await hold.renew({ amount: 8 })).toMatchObject({ allowed: true });
    expect([await rate.peek("k"), await streams.peek("k")]).toMatchObject([{ held: 8 }, { held: 1 }]);
    expect(await hold.settle(3)).toMatchObject({ settled: true, policy: "streams", parts: [{ remaining: 7 }, {}] });
    expect(await streams.peek("k")).toMatchObject({ remaining: 2 });
  });

  it("settles the holds of all parts by their id, from another limiter on the same store", async () => {
    const store = memoryStore({ clock });
    const build = () =>
      combine([createLimiter({ policy: tokens, store }), createLimiter({ policy: concurrency(2), store })]);
    holdOf(await hold(build(), "k", 6, { id: "job-17" }));
    expect(await settle(build(), "k", "job-17", 1)).toMatchObject({ settled: true });
    expect(await settle(build(), "k", "job-17", 1)).toMatchObject({ settled: false });
    expect(await createLimiter({ policy: tokens, store }).peek("k")).toMatchObject({ remaining: 9 });
  });

  it("reports the earliest retry of all denied parts", async () => {
    const store = memoryStore({ clock });
    const slow = createLimiter({ policy: { capacity: 10, tokensPerSecond: "1/1s", name: "slow" }, store });
    const streams = createLimiter({ policy: concurrency(1, { name: "streams" }), store });
    await slow.consume("k", 8);
    holdOf(await hold(streams, "k", 1, { forMs: "1m" }));
    expect(await hold(combine([slow, streams]), "k", 5)).toMatchObject({
      allowed: false,
      policy: "streams",
      retryAfterMs: 60_000,
      // The tokens need 3 s, whatever happens to the stream.
      earliestRetryMs: 3000,
      parts: [{ retryAfterMs: 3000 }, { retryAfterMs: 60_000, earliestRetryMs: 1 }],
    });
  });

  it("records a strike for a denied hold, and denies holds while the key is blocked", async () => {
    const store = memoryStore({ clock });
    const limiter = combine([createLimiter({ policy: tokens, store }), createLimiter({ policy: login, store })]);
    holdOf(await hold(limiter, "k", 10));
    expect(await hold(limiter, "k")).toMatchObject({ allowed: false, policy: "tokens" });
    expect(await hold(limiter, "k")).toMatchObject({ allowed: false, policy: "login", retryAfterMs: 18_000_000 });
    expect(await limiter.inspect("k")).toMatchObject({ parts: [{}, { strikes: 2, blockedMs: 18_000_000 }] });
  });

  it("rejects holds of a leaky bucket, of a penalty alone, and of a long sliding log", async () => {
    const held = (policy: Policy) => hold(createLimiter({ policy }), "k");
    await expect(held(leakyBucket("10/s"))).rejects.toMatchObject({ code: "unsupported" });
    await expect(held(login)).rejects.toMatchObject({ code: "unsupported" });
    await expect(held(slidingLog("2000/h"))).rejects.toMatchObject({ code: "out-of-range" });
    await expect(settle(createLimiter({ policy: login }), "k", "h", 1)).rejects.toMatchObject({ code: "unsupported" });
  });
});

describe("consumeAll", () => {
  it("records one strike of a penalty that two combinations share", async () => {
    const store = memoryStore({ clock });
    const guard = createLimiter({ policy: login, store });
    const [ip, account] = ["ip", "account"].map((name) => {
      const limiter = createLimiter({ policy: slidingLog("1/h", { name }), store });
      return combine([limiter, guard]);
    }) as [ReturnType<typeof combine>, ReturnType<typeof combine>];
    const attempt = () =>
      consumeAll([
        { limiter: ip, key: "k" },
        { limiter: account, key: "k" },
      ]);
    expect(await attempt()).toMatchObject({ allowed: true });
    expect(await attempt()).toMatchObject({ allowed: false });
    expect(await guard.inspect("k")).toMatchObject({ strikes: 1, blockedMs: 0 });
    await attempt();
    expect(await attempt()).toMatchObject({ allowed: false, policy: "login" });
    expect(await guard.inspect("k")).toMatchObject({ strikes: 2 });
  });

  it("rejects a concurrency limit", async () => {
    const limiter = createLimiter({ policy: concurrency(2) });
    await expect(consumeAll([{ limiter, key: "k" }])).rejects.toMatchObject({ code: "unsupported" });
    await expect(holdAll([{ limiter, key: "k", cost: 1 }])).rejects.toMatchObject({ code: "unsupported" });
  });
});

describe("holdAll", () => {
  it("rejects invalid charges", async () => {
    const limiter = createLimiter({ policy: tokens });
    const rejects = (charges: unknown) => expect(holdAll(charges as never)).rejects;
    await rejects({}).toMatchObject({ code: "invalid-option" });
    await rejects([]).toMatchObject({ code: "invalid-option" });
    await rejects([{ limiter, key: "k", cost: 1 }]).toMatchObject({ code: "invalid-option" });
    await rejects([{ limiter, key: "k", cost: 1, amount: 1 }]).toMatchObject({ code: "invalid-option" });
    await rejects([{ limiter, key: "k", amount: 0 }]).toMatchObject({ code: "invalid-cost" });
    await rejects([
      { limiter, key: "k", amount: 1 },
      { limiter, key: "k", cost: 1 },
    ]).toMatchObject({ code: "policy-conflict" });
    expect(await limiter.peek("k")).toMatchObject({ remaining: 10 });
  });

  it("settles and renews one hold if two charges are to the same bucket", async () => {
    const limiter = createLimiter({ policy: tokens, store: flakyStore(clock) });
    const charges = [
      { limiter, key: "k", amount: 3 },
      { limiter, key: "k", amount: 4 },
    ];
    const hold = holdOf(await holdAll(charges));
    expect(await limiter.peek("k")).toMatchObject({ held: 7 });
    expect(await hold.renew()).toMatchObject({ allowed: true });
    expect(await limiter.peek("k")).toMatchObject({ held: 7 });
    expect(await hold.settle()).toMatchObject({ settled: true, remaining: 3 });
    await limiter.reset("k");
    const another = holdOf(await holdAll(charges));
    expect(await another.settle([1, 4])).toMatchObject({ settled: true, remaining: 5 });
  });
});

describe("holdAll across stores", () => {
  /** A limiter on a store of its own, synchronous or remote. */
  const apart = (policy: Policy, isRemote: boolean, onEvent?: (event: LimiterEvent) => void) => {
    const store = isRemote ? flakyStore(clock) : memoryStore({ clock });
    return createLimiter({ policy, store, ...(onEvent && { onEvent }) });
  };

  it.each([false, true])("holds in all or in none (remote: %s)", async (isRemote) => {
    const first = apart(tokens, isRemote);
    const second = apart(concurrency(1, { name: "streams" }), isRemote);
    const charges = [
      { limiter: first, key: "k", amount: 4 },
      { limiter: second, key: "k" },
    ];
    const hold = holdOf(await holdAll(charges));
    expect(await holdAll(charges)).toMatchObject({ allowed: false, policy: "streams" });
    expect([await first.peek("k"), await second.peek("k")]).toMatchObject([{ held: 4 }, { held: 1 }]);
    expect(await hold.settle([1])).toMatchObject({ settled: true });
    expect([await first.peek("k"), await second.peek("k")]).toMatchObject([{ remaining: 9 }, { remaining: 1 }]);
  });

  it("cancels what it held and refunds what it took if another caller was faster", async () => {
    const [first, second] = [apart(tokens, true), apart(tokenBucket("5/h", { name: "requests" }), true)];
    const streams = apart(concurrency(1, { name: "streams" }), true);
    const decisions = await Promise.all(
      Array.from({ length: 2 }, () =>
        holdAll([
          { limiter: first, key: "k", amount: 4 },
          { limiter: second, key: "k", cost: 1 },
          { limiter: streams, key: "k" },
        ]),
      ),
    );
    // Both have seen a free stream.
    expect(decisions.map(({ allowed }) => allowed).sort()).toEqual([false, true]);
    expect(await first.peek("k")).toMatchObject({ held: 4, remaining: 6 });
    expect(await second.peek("k")).toMatchObject({ remaining: 4 });
    expect(await streams.peek("k")).toMatchObject({ held: 1 });
  });

  it.each([false, true])("records a strike of a penalty in another store (remote: %s)", async (isRemote) => {
    const rate = apart(tokens, isRemote);
    const guard = apart(login, isRemote);
    const attempt = (amount: number) =>
      holdAll([
        { limiter: rate, key: "k", amount },
        { limiter: guard, key: "k" },
      ]);
    holdOf(await attempt(10));
    expect(await attempt(11)).toMatchObject({ allowed: false, retryAfterMs: null });
    expect(await guard.inspect("k")).toMatchObject({ strikes: 0 });
    expect(await attempt(1)).toMatchObject({ allowed: false, policy: "tokens" });
    expect(await guard.inspect("k")).toMatchObject({ strikes: 1 });
    expect(await attempt(1)).toMatchObject({ allowed: false, policy: "login" });
    expect(await attempt(1)).toMatchObject({ allowed: false, policy: "login" });
    expect(await guard.inspect("k")).toMatchObject({ strikes: 2, blockedMs: 18_000_000 });
  });

  it("records no strike if a store can't decide", async () => {
    const down = flakyStore();
    const rate = createLimiter({ policy: tokens, store: down, onStoreError: "closed", onEvent() {} });
    const guard = createLimiter({ policy: login, store: memoryStore({ clock }) });
    down.mode = "fail";
    for (let i = 0; i < 5; i++) {
      expect(await combine([rate, guard]).consume("k")).toMatchObject({ allowed: false, unavailable: true });
    }
    expect(await guard.inspect("k")).toMatchObject({ strikes: 0, blockedMs: 0 });
  });
});
