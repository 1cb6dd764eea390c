/** Tasks that use limiters on Durable Objects: bursts, joint charges, failures. */
import {
  combine,
  consumeAll,
  createLimiter,
  type Decision,
  type LimiterEvent,
  type Policy,
  type RateLimiter,
  type Store,
  tokenBucket,
} from "sluice";
import { compilePolicy } from "sluice/algorithms";
import { type DurableObjectNamespaceLike, durableObjectRateLimiter, durableObjectStore } from "sluice/cloudflare";
import { errorOf, type Tasks } from "../tasks.ts";
import { consumeMany, countAllowed, type Env, FIFTY, FreshNamespace, type Shards } from "./namespace.ts";

export const limiterTasks: Tasks<Env> = {
  /** Sends 200 calls at once to a capacity of 50. */
  async burst({ OBJECTS, RACY }, { shards, calls, on }: { shards: Shards; calls: "one" | "many"; on?: "racy" }) {
    const namespace = new FreshNamespace(on === "racy" ? RACY : OBJECTS);
    const limiter = () =>
      createLimiter({ policy: FIFTY, store: durableObjectStore(namespace, { shards }), localDenialMs: 0 });
    // Calls of different stores are not batched.
    const limiters = Array.from({ length: calls === "one" ? 1 : 200 }, limiter);
    const decisions = await Promise.all(
      Array.from({ length: 200 }, (_, i) => (limiters[i % limiters.length] as RateLimiter).consume("k")),
    );
    return {
      admitted: countAllowed(decisions),
      calls: namespace.calls,
      remaining: Math.min(...decisions.map(({ remaining }) => remaining)),
    };
  },

  /** Handles one of many HTTP requests. */
  async hit({ OBJECTS }, { shards, run }: { shards: Shards; run: string }) {
    const namespace = new FreshNamespace(OBJECTS, `${run}:`);
    return durableObjectRateLimiter(namespace, FIFTY, { shards, localDenialMs: 0 }).consume("k");
  },

  /** Charges several policies in one object, and keys in several objects. */
  async jointCharges({ OBJECTS }) {
    const namespace = new FreshNamespace(OBJECTS);
    const make = (policy: Policy) => durableObjectRateLimiter(namespace, policy, { localDenialMs: 0 });
    const [burst, daily, address] = [tokenBucket("5/h"), tokenBucket("20/d"), tokenBucket("3/m")].map(make) as [
      RateLimiter,
      RateLimiter,
      RateLimiter,
    ];
    const both = combine([burst, daily]);
    const before = namespace.calls;
    const joint = await Promise.all(Array.from({ length: 30 }, () => both.consume("user")));
    const calls = namespace.calls - before;
    const store = durableObjectStore(namespace);
    // Two keys that live in different objects.
    let other = 0;
    while (store.shardOf(`address ${other}`) === store.shardOf("guest")) other++;
    const apart: Decision[] = [];
    for (let i = 0; i < 6; i++) {
      apart.push(
        await consumeAll([
          { limiter: burst, key: "guest" },
          { limiter: address, key: `address ${other}` },
        ]),
      );
    }
    const left = (await burst.peek("guest", 0)).remaining;
    return {
      admitted: countAllowed(joint),
      calls,
      daily: (await daily.peek("user", 0)).remaining,
      apart: countAllowed(apart),
      left,
    };
  },

  /** Sends a flood of denied calls through limiters that are created per request. */
  async cachedDenials({ OBJECTS }) {
    const namespace = new FreshNamespace(OBJECTS);
    const limiter = () => durableObjectRateLimiter(namespace, tokenBucket("2/h"), { shards: 1 });
    await limiter().consume("k", 2);
    await limiter().consume("k");
    const { calls } = namespace;
    const denied = countAllowed(await Promise.all(Array.from({ length: 500 }, () => limiter().consume("k")))) === 0;
    return { denied, calls: namespace.calls - calls };
  },

  /** Fails the calls to one object of many. */
  async failingShard({ OBJECTS }) {
    const broken = `key:attacker`;
    const namespace = {
      idFromName: (name: string) => ({ name, id: OBJECTS.idFromName(`one fails:${name}`) }),
      get: ({ name, id }: { name: string; id: never }) =>
        name === broken ? { apply: () => Promise.reject(new Error("overloaded")) } : OBJECTS.get(id),
    } as unknown as DurableObjectNamespaceLike;
    const events: LimiterEvent["type"][] = [];
    const limiter = durableObjectRateLimiter(namespace, tokenBucket("3/h"), {
      shards: "per-key",
      onEvent: ({ type }) => events.push(type),
    });
    // A failed RPC counts as one failure, however many calls it contained.
    const first = await consumeMany(limiter, 50, "attacker");
    const afterOne = [...events];
    for (let i = 0; i < 10; i++) await limiter.consume("attacker");
    const others = await Promise.all(Array.from({ length: 100 }, (_, i) => limiter.consume(`key ${i}`)));
    return {
      degraded: first.filter(({ degraded }) => degraded).length,
      afterOne,
      events,
      others: others.filter(({ degraded, allowed }) => allowed && !degraded).length,
    };
  },

  /** Abandons a call before it is sent. */
  async abandonedCall({ OBJECTS }) {
    const namespace = new FreshNamespace(OBJECTS);
    const store = durableObjectStore(namespace, { shards: 1 });
    const policy = compilePolicy(FIFTY);
    void store.apply([[{ policy, key: "k", cost: 1, mode: "take" }]], { abandoned: true });
    const [[decision] = []] = await store.apply([[{ policy, key: "k", cost: 1, mode: "take" }]], { abandoned: false });
    return decision?.remaining;
  },

  /** Calls objects that fail, hang or crash. */
  async storeFailures({ OBJECTS }) {
    const events: LimiterEvent["type"][] = [];
    const onEvent = ({ type }: LimiterEvent) => events.push(type);
    const broken = {
      idFromName: (name: string) => OBJECTS.idFromName(name),
      get: () => ({ apply: async () => Promise.reject(new Error("Network connection lost.")) }),
    };
    const policy = tokenBucket("3/h");
    const local = createLimiter({ policy, store: durableObjectStore(broken), onEvent });
    // One after the other, because a failed RPC counts as one failure for all its calls.
    const degraded: Decision[] = [];
    for (let i = 0; i < 10; i++) degraded.push(await local.consume("k"));
    const closed = await createLimiter({ policy, store: durableObjectStore(broken), onStoreError: "closed" }).consume(
      "k",
    );
    const hanging = { ...broken, get: () => ({ apply: () => new Promise(() => {}) }) };
    const start = performance.now();
    const late = await createLimiter({ policy, store: durableObjectStore(hanging), deadlineMs: 100 }).consume("k");
    const waited = performance.now() - start;
    // Two calls of one tick with different deadlines.
    const patient = createLimiter({ policy, store: durableObjectStore(hanging), deadlineMs: 2000 });
    const hurried = createLimiter({ policy, store: (patient as unknown as { store: Store }).store, deadlineMs: 50 });
    const began = performance.now();
    const both = Promise.all([patient.consume("k"), hurried.consume("k").then(() => performance.now() - began)]);
    const [, hurry] = await both;
    const patience = performance.now() - began;
    // An object that crashes during a call and restarts for the next one.
    const namespace = new FreshNamespace(OBJECTS);
    const limiter = durableObjectRateLimiter(namespace, policy, { shards: 1, onStoreError: "throw", localDenialMs: 0 });
    const first = await limiter.consume("k");
    const [, lost] = await Promise.all([namespace.crash(), errorOf(() => limiter.consume("k"))]);
    const after = await limiter.consume("k", 0);
    return {
      admitted: countAllowed(degraded),
      marked: degraded.every(({ degraded }) => degraded),
      events,
      closed,
      late: late.degraded,
      waited,
      hurry,
      patience,
      first: first.remaining,
      lost,
      after: after.remaining,
    };
  },
};
