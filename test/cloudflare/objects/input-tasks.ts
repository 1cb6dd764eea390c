/** Tasks that send invalid calls and options to Durable Objects. */
import { slidingLog, tokenBucket } from "sluice";
import { durableObjectRateLimiter, durableObjectStore, kvRateLimiter } from "sluice/cloudflare";
import { errorOf, type Tasks } from "../tasks.ts";
import { type Env, FreshNamespace } from "./namespace.ts";

export const inputTasks: Tasks<Env> = {
  /** Sends invalid calls to an object and passes invalid options to the store. */
  async invalidInput({ OBJECTS, RACY }) {
    const namespace = new FreshNamespace(OBJECTS);
    const limiter = durableObjectRateLimiter(namespace, tokenBucket("2/h"), { shards: 1 });
    await limiter.consume("k");
    const object = namespace.object("shard:0") as unknown as Record<string, (call: unknown) => Promise<unknown>>;
    const rows = async () => JSON.stringify(await namespace.object("shard:0").sql("SELECT * FROM sluice_buckets_1"));
    const before = await rows();
    const policy = { algorithm: "token-bucket", capacity: 2, tokensPerSecond: "1/1800000ms" };
    const charge = { policy: 0, bucket: "s1:{k}b2/h,2", cost: 1, mode: "take" };
    const call = { version: 4, policies: [policy], groups: [[charge]] };
    const withCharge = (changes: object) => ({ ...call, groups: [[charge], [{ ...charge, ...changes }]] });
    const withPolicy = (changes: object) => ({ ...call, policies: [{ ...policy, ...changes }] });
    const calls: Record<string, unknown> = {
      undefined: undefined,
      "a string": "apply",
      "another version": { ...call, version: 2 },
      "no version": { policies: [policy], groups: [[charge]] },
      "no policies": { version: 4, groups: [[charge]] },
      "no groups": { version: 4, policies: [policy] },
      "a charge of version 2": { ...call, groups: [[[0, "s1:{k}b2/h,2", 1, "take"]]] },
      "a charge that is null": { ...call, groups: [[null]] },
      "a sparse group": { ...call, groups: [new Array(2)] },
      "a cost that is a string": withCharge({ cost: "1" }),
      "a cost below 0": withCharge({ cost: -5 }),
      "a cost that is NaN": withCharge({ cost: Number.NaN }),
      "an empty bucket": withCharge({ bucket: "" }),
      "a bucket of a megabyte": withCharge({ bucket: "k".repeat(2 ** 20) }),
      "an unknown mode": withCharge({ mode: "steal" }),
      "a policy that does not exist": withCharge({ policy: 7 }),
      "a grant end that is not a time": withCharge({ mode: "refund", grantEndsAt: "now" }),
      "a hold in mode hold that is absent": withCharge({ mode: "hold" }),
      "a settlement without a hold": withCharge({ mode: "settle" }),
      "a hold that is null": withCharge({ hold: null }),
      "a hold with an id of 65 characters": withCharge({ hold: { id: "h".repeat(65), forMs: 1 } }),
      "a hold of half a millisecond": withCharge({ hold: { id: "h", forMs: 0.5 } }),
      "a hold of two days": withCharge({ hold: { id: "h", forMs: 2 * 86_400_000 } }),
      "the same bucket twice": { ...call, groups: [[charge, charge]] },
      "seventeen charges": {
        ...call,
        groups: [Array.from({ length: 17 }, (_, i) => ({ ...charge, bucket: `b${i}` }))],
      },
      "2000 charges": { ...call, groups: Array.from({ length: 2000 }, () => [charge]) },
      "a capacity of NaN": withPolicy({ capacity: Number.NaN }),
      "a capacity that is a string": withPolicy({ capacity: "2" }),
      "a rate of 0": withPolicy({ tokensPerSecond: 0 }),
      "a policy of __proto__": { ...call, policies: [{ algorithm: "__proto__" }] },
      "an unknown option": withPolicy({ unlimited: true }),
    };
    const byRpc: Record<string, string> = {};
    for (const [name, call] of Object.entries(calls)) byRpc[name] = await errorOf(() => object.apply?.(call));
    const methods: Record<string, string> = {};
    for (const method of ["take", "loadAlarm", "deleteExpired", "write", "constructor", "storage", "fetch"]) {
      methods[method] = await errorOf(() => object[method]?.({}));
    }
    const store = {
      nothing: await errorOf(() => durableObjectStore(undefined as never)),
      aNumber: await errorOf(() => durableObjectStore(7 as never)),
      shards0: await errorOf(() => durableObjectStore(namespace, { shards: 0 })),
      shardsHalf: await errorOf(() => durableObjectStore(namespace, { shards: 1.5 })),
      shardsText: await errorOf(() => durableObjectStore(namespace, { shards: "per key" as never })),
      unknown: await errorOf(() => durableObjectStore(namespace, { shard: 4 } as never)),
      cost: await errorOf(() => limiter.consume("k", "1" as never)),
      key: await errorOf(() => limiter.consume("")),
      anotherClass: await errorOf(() => durableObjectRateLimiter(RACY, tokenBucket("2/h")).inspect("k")),
      anotherKind: await errorOf(() => kvRateLimiter(namespace as never, slidingLog("2/h"))),
    };
    return { byRpc, methods, store, unchanged: before === (await rows()) };
  },

  /** Calls a stub without RPC, and an object that replies with another protocol version. */
  async incompatible({ OBJECTS }) {
    const errorWith = (stub: object) => {
      const namespace = { idFromName: (name: string) => OBJECTS.idFromName(name), get: () => stub };
      const limiter = durableObjectRateLimiter(namespace, tokenBucket("2/h"), { onStoreError: "throw" });
      return Promise.all([errorOf(() => limiter.consume("k")), errorOf(() => limiter.inspect("k"))]);
    };
    const reply = { now: Date.now(), groups: [[[1, 1, 0, 0, 0]]], decision: [1, 1, 0, 0, 0], raw: null, ttlMs: null };
    return {
      withoutRpc: await errorWith({ fetch: async () => new Response() }),
      anotherVersion: await errorWith({
        apply: async () => ({ ...reply, version: 5 }),
        inspect: async () => ({ ...reply, version: 5 }),
      }),
      noVersion: await errorWith({ apply: async () => reply, inspect: async () => undefined }),
    };
  },

  /** Returns the error of a call with the stub of this runtime. */
  async callError({ OBJECTS }) {
    return errorOf(() => durableObjectRateLimiter(new FreshNamespace(OBJECTS), tokenBucket("2/h")).consume("k"));
  },
};
