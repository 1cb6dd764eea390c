/** What the kit cannot ask, because it does not know that there are servers, connections and slots. */
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
import { spied } from "./intercepted.ts";
import { connected, type Kind } from "./kind.ts";
import type { Servers } from "./topologies.ts";

let made = 0;

/** A limit that does not refill while a case runs, with a name that nobody else has. */
export function policyOf(capacity: number): Policy {
  return { capacity, tokensPerSecond: "1/h", name: `beyond${made++}` };
}

/** A limiter that shows its store as it is: nothing is decided without it, and every failure is seen. */
export function limiterOn(store: Store, policy: Policy, more: FailureOptions = {}): RateLimiter {
  return createLimiter({ policy, store, onStoreError: "throw", localDenialMs: 0, deadlineMs: "20s", ...more });
}

export function beyondKit<Client extends object>(kind: Kind<Client>, servers: () => Pick<Servers, "callAll">): void {
  /** A store on a connection of its own, with what is run on it. */
  const open = async () => {
    const { client, calls } = spied(await connected(kind, onTestFinished));
    return { store: kind.storeOn(client), calls };
  };

  describe("beyond the kit", () => {
    it("200 charges in one tick on 50 keys: each key gives what it has, and every key is declared", async () => {
      const { store, calls } = await open();
      const policy = policyOf(3);
      const limiter = limiterOn(store, policy);
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
        const parts = keys.map((key) => store.shardOf(/\{(.*)\}/.exec(key)?.[1] as string));
        expect(new Set(parts).size, "slots of one call").toBe(1);
      }
    });

    it("combine of two policies on one key is one call, all or none", async () => {
      const { store, calls } = await open();
      const [wide, narrow] = [limiterOn(store, policyOf(9)), limiterOn(store, policyOf(4))];
      const both = combine([wide, narrow]);
      expect((await both.consume("k", 3)).parts?.map(({ remaining }) => remaining)).toEqual([6, 1]);
      calls.length = 0;
      expect((await both.consume("k", 2)).allowed).toBe(false);
      expect(calls.map(({ keys }) => keys.length)).toEqual([2]);
      const decisions = await Promise.all(Array.from({ length: 8 }, () => both.consume("k")));
      expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(1);
      expect([(await wide.peek("k")).remaining, (await narrow.peek("k")).remaining]).toEqual([5, 0]);
    });

    it("consumeAll over two keys that live apart: all or none, and what was taken in vain is given back", async () => {
      const { store, calls } = await open();
      const [user, address] = [limiterOn(store, policyOf(20)), limiterOn(store, policyOf(3))];
      const spend = () =>
        consumeAll([
          { limiter: user, key: "u" },
          { limiter: address, key: "a" },
        ]);
      expect((await spend()).allowed).toBe(true);
      const apart = store.shardOf("u") !== store.shardOf("a");
      expect(new Set(calls.map(({ keys }) => keys.length))).toEqual(new Set([apart ? 1 : 2]));
      // All look before one takes, so that most take from the user what the address then denies.
      const decisions = await Promise.all(Array.from({ length: 10 }, spend));
      expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(2);
      expect([(await user.peek("u")).remaining, (await address.peek("a")).remaining]).toEqual([17, 0]);
      expect((await spend()).allowed).toBe(false);
      expect((await user.peek("u")).remaining).toBe(17);
    });

    it("SCRIPT FLUSH on every master between calls is not noticed", async () => {
      const { store } = await open();
      const limiter = limiterOn(store, policyOf(20));
      for (let i = 0; i < 10; i++) {
        await servers().callAll("SCRIPT", "FLUSH");
        const decisions = await Promise.all(["a", "b", "c", "d"].map((key) => limiter.consume(key)));
        expect(decisions.map(({ remaining }) => remaining)).toEqual([19 - i, 19 - i, 19 - i, 19 - i]);
      }
    });

    it("two connections with 64 in flight each admit exactly what one key has", async () => {
      const policy = policyOf(500);
      const limiters = [limiterOn((await open()).store, policy), limiterOn((await open()).store, policy)];
      let admitted = 0;
      const worker = async (limiter: RateLimiter) => {
        for (let i = 0; i < 10; i++) if ((await limiter.consume("hot")).allowed) admitted++;
      };
      await Promise.all(limiters.flatMap((limiter) => Array.from({ length: 64 }, () => worker(limiter))));
      expect(admitted).toBe(500);
    });

    it("a burst of several calls is answered while others keep asking", async () => {
      const { store } = await open();
      const limiter = limiterOn(store, policyOf(100_000));
      await limiter.consume("the script is known");
      let answered = false;
      const burst = Promise.all(Array.from({ length: 300 }, (_, i) => limiter.consume(`k${i}`)));
      const asked: Promise<unknown>[] = [burst.then(() => (answered = true))];
      for (let turn = 0; turn < 3000 && !answered; turn++) {
        asked.push(limiter.consume("other"));
        await new Promise((resolve) => setImmediate(resolve));
      }
      expect(answered, "answered within 3000 turns of the event loop").toBe(true);
      await Promise.all(asked);
    });
  });
}
