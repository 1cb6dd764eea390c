/** Tests combine() and consumeAll(): the limiting part, atomicity on one store and on several. */

import {
  combine,
  consumeAll,
  createLimiter,
  type Decision,
  memoryRateLimiter,
  memoryStore,
  type Policy,
  penalty,
  type RateLimiter,
  SluiceError,
  type Store,
  strike,
} from "sluice";
import { describeRateLimiter, fakeClock } from "sluice/testing";
import { describe, expect, it } from "vitest";
import { toyStore } from "../../test/toy-store.ts";
import { decodeCharge, encodeCharge } from "../stores/encode-charge.ts";

const slow = (capacity: number, name: string): Policy => ({ capacity, tokensPerSecond: `${capacity}/1d`, name });
const remaining = (decision: Decision) => decision.parts?.map((part) => [part.allowed, part.remaining]);

// A combination passes the contract of a limiter. The second part is never the limiting one.
describeRateLimiter(
  "combine of one that binds and one that does not",
  (policy) => {
    const clock = fakeClock();
    const store = memoryStore({ clock });
    const wide = createLimiter({ policy: { capacity: 2 ** 31, tokensPerSecond: 2 ** 31, name: "wide" }, store });
    const narrow = createLimiter({ policy, store });
    return { limiter: combine([narrow, wide]), advance: clock.advance };
  },
  { describe, it, time: "none" },
);

describe("combine", () => {
  const clock = fakeClock();
  const stores: [string, () => Store, () => Store][] = [
    ["one memory store", ...shared(() => memoryStore({ clock }))],
    ["two memory stores", () => memoryStore({ clock }), () => memoryStore({ clock })],
    ["one store that answers later", ...shared(() => toyStore(clock))],
    ["two stores that answer later", () => toyStore(clock), () => toyStore(clock)],
    ["a memory store and one that answers later", () => memoryStore({ clock }), () => toyStore(clock)],
  ];

  /** One store for both limiters, or two. */
  function shared(create: () => Store): [() => Store, () => Store] {
    let store: Store;
    return [() => (store = create()), () => store];
  }

  describe.each(stores)("on %s", (_name, first, second) => {
    const pair = (a: number, b: number): [RateLimiter, RateLimiter] => {
      const store = first();
      return [createLimiter({ policy: slow(a, "a"), store }), createLimiter({ policy: slow(b, "b"), store: second() })];
    };

    it("charges all parts or none", async () => {
      const [a, b] = pair(10, 3);
      const both = combine([a, b]);
      expect(remaining(await both.consume("k", 2))).toEqual([
        [true, 8],
        [true, 1],
      ]);
      const denied = await both.consume("k", 2);
      expect(denied.allowed).toBe(false);
      expect(remaining(denied)).toEqual([
        [true, 8],
        [false, 1],
      ]);
      expect([(await a.peek("k")).remaining, (await b.peek("k")).remaining]).toEqual([8, 1]);
    });

    it("never admits more than the tightest part under concurrency", async () => {
      const [a, b] = pair(100, 5);
      const both = combine([a, b]);
      const decisions = await Promise.all(Array.from({ length: 40 }, () => both.consume("k")));
      const admitted = decisions.filter(({ allowed }) => allowed).length;
      expect(admitted).toBe(5);
      expect([(await a.peek("k")).remaining, (await b.peek("k")).remaining]).toEqual([95, 0]);
    });

    it("peeks, refunds, resets and inspects every part", async () => {
      const both = combine(pair(10, 4));
      await both.consume("k", 4);
      expect(remaining(await both.peek("k"))).toEqual([
        [true, 6],
        [false, 0],
      ]);
      await both.refund("k", 2);
      expect(remaining(await both.peek("k"))).toEqual([
        [true, 8],
        [true, 2],
      ]);
      expect((await both.inspect("k")).parts?.map((part) => part.remaining)).toEqual([8, 2]);
      expect((await both.inspect("k")).policy).toBe("b");
      await both.reset("k");
      expect(remaining(await both.peek("k"))).toEqual([
        [true, 10],
        [true, 4],
      ]);
    });

    it("charges a key per limiter with consumeAll", async () => {
      const [a, b] = pair(3, 2);
      const spend = () =>
        consumeAll([
          { limiter: a, key: "user" },
          { limiter: b, key: "address", cost: 2 },
        ]);
      expect((await spend()).allowed).toBe(true);
      expect((await spend()).allowed).toBe(false);
      expect([(await a.peek("user")).remaining, (await b.peek("address")).remaining]).toEqual([2, 0]);
    });
  });

  it("refunds earlier charges when a later store fails, and rejects with the failure", async () => {
    const broken: Store = {
      ...toyStore(clock),
      apply: async ([group]) => {
        if (group?.[0]?.mode === "take") throw new Error("connection lost");
        return toyStore(clock).apply([group ?? []]);
      },
    };
    const a = createLimiter({ policy: slow(10, "a"), store: toyStore(clock) });
    const both = combine([a, createLimiter({ policy: slow(10, "b"), store: broken, onStoreError: "throw" })]);
    await expect(both.consume("k", 3)).rejects.toMatchObject({ cause: { message: "connection lost" } });
    expect((await a.peek("k")).remaining).toBe(10);
  });

  it("reports the limiting part", async () => {
    const store = memoryStore({ clock });
    const of = (policy: Policy) => createLimiter({ policy, store });
    const quick = of({ capacity: 5, tokensPerSecond: 5, name: "quick" });
    const lasting = of({ capacity: 5, tokensPerSecond: 1, name: "lasting" });
    const both = combine([quick, lasting]);
    expect((await both.consume("k", 4)).policy).toBe("lasting"); // equal remaining: the longer reset
    const denied = await both.consume("k", 3);
    expect(denied).toMatchObject({ allowed: false, policy: "lasting", retryAfterMs: 2000, remaining: 1 });
    expect(await both.consume("k", 6)).toMatchObject({ allowed: false, retryAfterMs: null, policy: "quick" });
  });

  it("returns the longest delay", async () => {
    const store = memoryStore({ clock });
    const of = (leaksPerSecond: number) =>
      createLimiter({ policy: { algorithm: "leaky-bucket", capacity: 9, leaksPerSecond }, store });
    const both = combine([of(10), of(5)]);
    expect([(await both.consume("k")).delayMs, (await both.consume("k")).delayMs]).toEqual([0, 200]);
  });

  it("flattens combinations, allows sixteen charges and adds up charges to one bucket", async () => {
    const store = memoryStore({ clock });
    const of = (name: string) => createLimiter({ policy: slow(4, name), store });
    const a = of("a");
    const nested = combine([combine([a, of("b")]), of("c")]);
    expect(nested.getPolicies?.().map(({ name }) => name)).toEqual(["a", "b", "c"]);
    expect(remaining(await nested.consume("k"))).toEqual([
      [true, 3],
      [true, 3],
      [true, 3],
    ]);

    const twice = combine([a, a]);
    expect(remaining(await twice.consume("k"))).toEqual([
      [true, 1],
      [true, 1],
    ]);
    expect((await twice.consume("k")).allowed).toBe(false);
    expect((await a.peek("k")).remaining).toBe(1);

    const many = Array.from({ length: 17 }, (_, i) => of(`p${i}`));
    expect(() => combine(many)).toThrow(expect.objectContaining({ code: "too-many-charges", received: 17 }));
    expect(() => combine([])).toThrow(expect.objectContaining({ code: "invalid-option", option: "limiters" }));
    await expect(consumeAll([])).rejects.toMatchObject({ code: "invalid-option", option: "charges" });
    await expect(consumeAll(many.map((limiter) => ({ limiter, key: "k" })))).rejects.toMatchObject({
      code: "too-many-charges",
    });
    expect((await combine(many.slice(0, 16)).consume("k")).parts).toHaveLength(16);
  });

  it("rejects foreign limiters and two plans that share a bucket", async () => {
    expect(() => combine([{} as RateLimiter])).toThrow(expect.objectContaining({ code: "invalid-limiter" }));
    expect(() => combine(undefined as unknown as RateLimiter[])).toThrow(SluiceError);
    const store = memoryStore({ clock });
    const plan = (capacity: number) => createLimiter({ policy: { ...slow(capacity, "plan"), share: true }, store });
    const plans = [plan(5), plan(10)];
    expect(() => combine(plans)).toThrow(expect.objectContaining({ code: "policy-conflict" }));
    await expect(consumeAll(plans.map((limiter) => ({ limiter, key: "k" })))).rejects.toMatchObject({
      code: "policy-conflict",
    });
    for (const bad of [{}, undefined, [undefined], [{ limiter: plans[0], key: "k", price: 5 }]]) {
      await expect(consumeAll(bad as never)).rejects.toBeInstanceOf(SluiceError);
    }
  });

  it("reads the clock once per call", () => {
    let reads = 0;
    const store = memoryStore({ clock: { now: () => 1_800_000_000_000 + reads++ } });
    const of = (name: string) => createLimiter({ policy: slow(4, name), store });
    const three = combine([of("a"), of("b"), of("c")]);
    reads = 0;
    three.consumeSync("k");
    expect(reads).toBe(1);
    three.consumeSync("k", 9);
    expect(reads).toBe(2);
  });

  it("rejects limiters without keys with an error that explains the fix", async () => {
    const limiter = memoryRateLimiter("5/s");
    await expect(consumeAll([limiter] as never)).rejects.toThrow("{ limiter, key } for each limiter");
  });

  it("rejects invalid input like a limiter, and changes nothing", async () => {
    const both = combine([memoryRateLimiter(slow(5, "a")), memoryRateLimiter(slow(5, "b"))]);
    expect(() => both.consumeSync("k", -1)).toThrow(expect.objectContaining({ code: "invalid-cost" }));
    await expect(both.consume("", 1)).rejects.toMatchObject({ code: "invalid-key" });
    await expect(consumeAll([{ limiter: both, key: "k", cost: 0.5 }])).rejects.toMatchObject({ code: "invalid-cost" });
    expect(remaining(await both.peek("k"))).toEqual([
      [true, 5],
      [true, 5],
    ]);
  });

  it("returns the smallest policy from getPolicy and is exact only if every part is", () => {
    const both = combine([memoryRateLimiter(slow(9, "a")), memoryRateLimiter(slow(5, "b"))]);
    expect(both.getPolicy().name).toBe("b");
    expect(both.consistency).toBe("exact");
    const vague = createLimiter({ policy: slow(5, "c"), store: { ...toyStore(clock), consistency: "approximate" } });
    expect(combine([both, vague]).consistency).toBe("approximate");
  });
});

describe("a remote and a synchronous store in one decision", () => {
  it("reports one error and leaves no promise unhandled if both fail", async () => {
    const unhandled: unknown[] = [];
    const listener = (error: unknown) => void unhandled.push(error);
    process.on("unhandledRejection", listener);
    const [remote, local] = [toyStore(fakeClock()), memoryStore()];
    const both = combine([
      createLimiter({ policy: slow(5, "remote"), store: remote, onStoreError: "throw" }),
      createLimiter({ policy: slow(5, "local"), store: local }),
    ]);
    await remote.dispose();
    await local.dispose();
    await expect(both.consume("k")).rejects.toMatchObject({ code: "disposed" });
    await new Promise((resolve) => setImmediate(resolve));
    process.off("unhandledRejection", listener);
    expect(unhandled).toEqual([]);
  });

  it("passes charges to the store that can be encoded, serialised and decoded", async () => {
    const memory = memoryStore();
    const store: Store = {
      consistency: "exact",
      apply: (groups) => {
        const sent = structuredClone(groups.map((group) => group.map(encodeCharge)));
        return memory.apply(sent.map((group) => group.map(decodeCharge)));
      },
      inspect: (policy, key) => memory.inspect(policy, key),
      dispose: () => memory.dispose(),
    };
    const limiter = createLimiter({ policy: slow(5, "cloned"), store, onEvent: () => {} });
    const decision = await combine([limiter, memoryRateLimiter(slow(9, "local"))]).consume("k");
    expect(decision.source).toBeUndefined();
    await limiter.refund("k", 1);
    await limiter.reset("k");
    expect(await limiter.consume("k")).toMatchObject({ allowed: true, remaining: 4 });
  });

  it("refunds limits beside a penalty, which keeps its strikes", async () => {
    const memory = memoryStore();
    const { apply, inspect, dispose } = memory;
    const remote: Store = {
      consistency: "exact",
      apply: apply.bind(memory),
      inspect: inspect.bind(memory),
      dispose: dispose.bind(memory),
    };
    for (const store of [memoryStore(), remote]) {
      const strikes = createLimiter({ policy: penalty({ strikes: 2, blockMs: "1m", name: "p" }), store });
      const both = combine([createLimiter({ policy: slow(1, "limit"), store }), strikes]);
      await strike(strikes, "k");
      const decision = await both.consume("k");
      await both.refund("k", 1, decision);
      expect(await both.consume("k")).toMatchObject({ allowed: true });
      expect(await strikes.inspect("k")).toMatchObject({ strikes: 1 });
    }
  });
});
