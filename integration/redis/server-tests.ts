/** Tests beyond the contract suites: batching, slots, script flushes and concurrency on real servers. */
import {
  combine,
  consumeAll,
  createLimiter,
  type FailureOptions,
  type Policy,
  type RateLimiter,
  type Store,
} from "sluice";
import { describe, expect, it, onTestFinished } from "vitest";
import { type ClientKind, openClient } from "./client-kind.ts";
import { spyOn } from "./intercept.ts";
import type { Servers } from "./topologies.ts";

let policies = 0;

/** Returns a policy with a unique name that does not refill during a test. */
export function uniquePolicy(capacity: number): Policy {
  return { capacity, tokensPerSecond: "1/h", name: `policy${policies++}` };
}

/** Creates a limiter whose every call reaches the store and fails with it. */
export function limiterFor(store: Store, policy: Policy, more: FailureOptions = {}): RateLimiter {
  return createLimiter({ policy, store, onStoreError: "throw", localDenialMs: 0, deadlineMs: "20s", ...more });
}

export function serverTests<Client extends object>(
  kind: ClientKind<Client>,
  servers: () => Pick<Servers, "callAll">,
): void {
  /** Opens a store on its own connection, and records its script calls. */
  const open = async () => {
    const { client, calls } = spyOn(await openClient(kind, onTestFinished));
    return { store: kind.createStore(client), calls };
  };

  describe("a store on real servers", () => {
    it("decides 200 charges of one tick on 50 keys in order, and declares every key", async () => {
      const { store, calls } = await open();
      const policy = uniquePolicy(3);
      const limiter = limiterFor(store, policy);
      const keys = Array.from({ length: 200 }, (_, i) => `k${i % 50}`);
      const decisions = await Promise.all(keys.map((key) => limiter.consume(key)));
      for (let k = 0; k < 50; k++) {
        const own = decisions.filter((_, i) => i % 50 === k);
        expect(own.map(({ allowed, remaining }) => [allowed, remaining])).toEqual([
          [true, 2],
          [true, 1],
          [true, 0],
          [false, 0],
        ]);
      }
      const declared = new Set(calls.flatMap(({ keys }) => keys));
      const stored = await servers().callAll("KEYS", `*${policy.name}`);
      expect(stored.flat().sort()).toEqual([...declared].sort());
      expect(declared.size).toBe(50);
      expect(stored.filter((own) => (own as string[]).length > 5)).toHaveLength(stored.length);
      for (const { keys } of calls) {
        const slots = keys.map((key) => store.shardOf(/\{(.*)\}/.exec(key)?.[1] as string));
        expect(new Set(slots).size, "slots of one call").toBe(1);
      }
    });

    it("applies combine() of two policies on one key in one call, all or nothing", async () => {
      const { store, calls } = await open();
      const [wide, narrow] = [limiterFor(store, uniquePolicy(9)), limiterFor(store, uniquePolicy(4))];
      const both = combine([wide, narrow]);
      expect((await both.consume("k", 3)).parts?.map(({ remaining }) => remaining)).toEqual([6, 1]);
      calls.length = 0;
      expect((await both.consume("k", 2)).allowed).toBe(false);
      expect(calls.map(({ keys }) => keys.length)).toEqual([2]);
      const decisions = await Promise.all(Array.from({ length: 8 }, () => both.consume("k")));
      expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(1);
      expect([(await wide.peek("k")).remaining, (await narrow.peek("k")).remaining]).toEqual([5, 0]);
    });

    it("applies consumeAll() over keys in two slots all or nothing, and refunds what a denial makes void", async () => {
      const { store, calls } = await open();
      const [user, address] = [limiterFor(store, uniquePolicy(20)), limiterFor(store, uniquePolicy(3))];
      const consumeBoth = () =>
        consumeAll([
          { limiter: user, key: "u" },
          { limiter: address, key: "a" },
        ]);
      expect((await consumeBoth()).allowed).toBe(true);
      const isApart = store.shardOf("u") !== store.shardOf("a");
      expect(new Set(calls.map(({ keys }) => keys.length))).toEqual(new Set([isApart ? 1 : 2]));
      // All of them peek before the first takes, so most take from the user what the address then denies.
      const decisions = await Promise.all(Array.from({ length: 10 }, consumeBoth));
      expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(2);
      expect([(await user.peek("u")).remaining, (await address.peek("a")).remaining]).toEqual([17, 0]);
      expect((await consumeBoth()).allowed).toBe(false);
      expect((await user.peek("u")).remaining).toBe(17);
    });

    it("survives SCRIPT FLUSH on every master between calls", async () => {
      const { store } = await open();
      const limiter = limiterFor(store, uniquePolicy(20));
      for (let i = 0; i < 10; i++) {
        await servers().callAll("SCRIPT", "FLUSH");
        const decisions = await Promise.all(["a", "b", "c", "d"].map((key) => limiter.consume(key)));
        expect(decisions.map(({ remaining }) => remaining)).toEqual([19 - i, 19 - i, 19 - i, 19 - i]);
      }
    });

    it("admits exactly the capacity of a key over two connections with 64 calls in flight each", async () => {
      const policy = uniquePolicy(500);
      const limiters = [limiterFor((await open()).store, policy), limiterFor((await open()).store, policy)];
      let admitted = 0;
      const worker = async (limiter: RateLimiter) => {
        for (let i = 0; i < 10; i++) if ((await limiter.consume("hot")).allowed) admitted++;
      };
      await Promise.all(limiters.flatMap((limiter) => Array.from({ length: 64 }, () => worker(limiter))));
      expect(admitted).toBe(500);
    });

    it("answers a burst of several calls while others keep calling", async () => {
      const { store } = await open();
      const limiter = limiterFor(store, uniquePolicy(100_000));
      await limiter.consume("loads the script");
      let answered = false;
      const burst = Promise.all(Array.from({ length: 300 }, (_, i) => limiter.consume(`k${i}`)));
      const calls: Promise<unknown>[] = [burst.then(() => (answered = true))];
      for (let turn = 0; turn < 3000 && !answered; turn++) {
        calls.push(limiter.consume("other"));
        await new Promise((resolve) => setImmediate(resolve));
      }
      expect(answered, "answered within 3000 turns of the event loop").toBe(true);
      await Promise.all(calls);
    });
  });
}
