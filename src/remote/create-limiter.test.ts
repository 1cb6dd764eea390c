/** Tests createLimiter(): names, plans, ownership of stores and invalid options. */
import { createLimiter, memoryRateLimiter, memoryStore, type Policy, type Store, tokenBucket } from "sluice";
import { fakeClock } from "sluice/testing";
import { describe, expect, it } from "vitest";

const policy = tokenBucket("5/s", { burst: 10, name: "api" });

describe("createLimiter", () => {
  it("works with a policy alone", async () => {
    const limiter = createLimiter({ policy });
    expect(await limiter.consume("k")).toEqual({
      allowed: true,
      policy: "api",
      limit: 10,
      remaining: 9,
      resetAfterMs: 200,
      nextAfterMs: 200,
    });
    expect(limiter.getPolicy()).toEqual({
      algorithm: "token-bucket",
      name: "api",
      capacity: 10,
      tokensPerSecond: 5,
      limit: 10,
      windowMs: 2000,
    });
  });

  it("shares buckets only between limiters with the same policy and store", () => {
    const store = memoryStore({ clock: fakeClock() });
    const text = { capacity: 2, tokensPerSecond: 1 };
    createLimiter({ policy: text, store }).consumeSync("k", 2);
    expect(createLimiter({ policy: { ...text }, store }).consumeSync("k").allowed).toBe(false);
    expect(createLimiter({ policy: { ...text, prefix: "other" }, store }).consumeSync("k").allowed).toBe(true);
    expect(createLimiter({ policy: { ...text, capacity: 3 }, store }).consumeSync("k").allowed).toBe(true);
    expect(createLimiter({ policy: text }).consumeSync("k").allowed).toBe(true);
  });

  it("rejects two policies with one name, unless they are plans with share", () => {
    const store = memoryStore({ clock: fakeClock() });
    createLimiter({ policy, store });
    createLimiter({ policy: { ...policy }, store });
    const other: Policy = { ...policy, capacity: 20 };
    expect(() => createLimiter({ policy: other, store })).toThrow(
      expect.objectContaining({ code: "policy-conflict", option: "name" }),
    );
    expect(() => createLimiter({ policy: { ...other, share: true }, store })).toThrow(/share: true/);
    expect(() => createLimiter({ policy: { ...other, prefix: "p" }, store })).not.toThrow();

    // Both fill in 2 s. The state is the instant at which the bucket is full, so the plans share a fraction in use.
    const plan = (capacity: number, tokensPerSecond = capacity / 2) =>
      createLimiter({ policy: { name: "plan", capacity, tokensPerSecond, share: true }, store });
    const [free, paid] = [plan(10), plan(100)];
    free.consumeSync("k", 4);
    expect(paid.consumeSync("k", 0).remaining).toBe(60);
    paid.consumeSync("k", 50);
    expect(free.consumeSync("k", 0).remaining).toBe(1);
    expect(() => plan(100, 5)).toThrow(
      expect.objectContaining({
        code: "policy-conflict",
        option: "share",
        message: expect.stringContaining("20000 ms"),
      }),
    );
    const window: Policy = { algorithm: "fixed-window", limit: 1, windowMs: 1, name: "plan", share: true };
    expect(() => createLimiter({ policy: window, store })).toThrow(
      expect.objectContaining({ code: "policy-conflict", message: expect.stringContaining("two names") }),
    );
    expect(() => createLimiter({ policy: { capacity: 1, tokensPerSecond: 1, share: true }, store })).toThrow(/name/);
  });

  it("releases its name on dispose, keeps state for a new limit and drops it for a new fill time", async () => {
    const store = memoryStore({ clock: fakeClock() });
    const first = createLimiter({ policy, store });
    first.consumeSync("k", 10);
    const twin = createLimiter({ policy, store });
    await first.dispose();
    expect(() => createLimiter({ policy: { ...policy, capacity: 5 }, store })).toThrow(
      /^Another policy on this store is named/,
    );
    await twin.dispose();
    const next = createLimiter({ policy: { ...policy, capacity: 20, tokensPerSecond: 10 }, store });
    expect(next.consumeSync("k").allowed).toBe(false);
    await next.dispose();
    const slower = createLimiter({ policy: { ...policy, tokensPerSecond: 1 }, store });
    expect(slower.consumeSync("k").remaining).toBe(9);
    await slower.dispose();
    // Another algorithm has its own buckets, too.
    const window = createLimiter({
      policy: { algorithm: "fixed-window", limit: 3, windowMs: "1h", name: "api" },
      store,
    });
    expect(window.consumeSync("k").remaining).toBe(2);
  });

  it("creates the 20 000th plan of one name as fast as the first ones", () => {
    const store = memoryStore();
    const create = (from: number, to: number): number => {
      const start = process.cpuUsage();
      for (let limit = from; limit < to; limit++) {
        createLimiter({ policy: { algorithm: "fixed-window", limit, windowMs: "1d", name: "p", share: true }, store });
      }
      const { user, system } = process.cpuUsage(start);
      return (user + system) / 1000;
    };
    const first = create(1, 2001);
    // Nine times as many plans. Comparing each with all others would take a hundred times as long.
    expect(create(2001, 20_001) / Math.max(first, 1)).toBeLessThan(40);
  });

  it("explains a missing algorithm when a policy has a window", () => {
    const bad = () => createLimiter({ policy: { limit: 5, windowMs: "1h" } as unknown as Policy });
    expect(bad).toThrow(
      /^A policy with limit and windowMs needs an algorithm: fixed-window, sliding-window or sliding-log\./,
    );
  });

  it("disposes its own store and never a given one", async () => {
    const store = memoryStore();
    const limiter = createLimiter({ policy, store });
    await limiter.dispose();
    expect(() => limiter.consumeSync("k")).toThrow(expect.objectContaining({ code: "disposed" }));
    expect(createLimiter({ policy, store }).consumeSync("k").allowed).toBe(true);

    const own = memoryRateLimiter(policy);
    own.consumeSync("k");
    await own.dispose();
    expect(own.store.size).toBe(0);
  });

  it("rejects unknown options", () => {
    const bad = (options: unknown) => () => createLimiter(options as { policy: Policy });
    expect(bad({ policy, timeout: 5 })).toThrow(expect.objectContaining({ code: "unknown-option", option: "timeout" }));
    expect(bad({ policy, store: {} })).toThrow(expect.objectContaining({ code: "invalid-option", option: "store" }));
    expect(bad({ policy, store: null })).toThrow(expect.objectContaining({ code: "invalid-option", option: "store" }));
    expect(bad({})).toThrow(expect.objectContaining({ code: "invalid-option", option: "policy" }));
    expect(bad({ policy: "fast" })).toThrow(expect.objectContaining({ code: "invalid-option", option: "policy" }));
    expect(bad(undefined)).toThrow(expect.objectContaining({ code: "invalid-option", option: "createLimiter" }));
  });
});

it("accepts a store that returns no decisions on refunds and resets, and no other", async () => {
  const store = memoryStore();
  const silent: Store = {
    consistency: "exact",
    async apply(groups) {
      const decisions = groups.map((group) => store.applySync(group));
      return groups.some((group) => group.some(({ mode }) => mode === "take")) ? decisions : [];
    },
    inspect: (policy, key) => store.inspect(policy, key),
    dispose: () => store.dispose(),
  };
  const limiter = createLimiter({ policy: "2/h", store: silent });
  const decision = await limiter.consume("k");
  await limiter.refund("k", 1, decision);
  await limiter.reset("k");
  await expect(limiter.peek("k")).rejects.toMatchObject({ code: "invalid-option" });
});
