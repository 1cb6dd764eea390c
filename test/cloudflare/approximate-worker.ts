/** What the tests of KV, the rate-limit binding and hybrids do inside of workerd. */
import {
  combine,
  createLimiter,
  type Decision,
  fixedWindow,
  memoryRateLimiter,
  type Policy,
  type RateLimiter,
  slidingLog,
  slidingWindow,
  tokenBucket,
} from "sluice";
import {
  bindingRateLimiter,
  type DurableObjectNamespaceLike,
  durableObjectRateLimiter,
  durableObjectStore,
  hybridRateLimiter,
  type KVNamespaceLike,
  kvRateLimiter,
  kvStore,
  type RateLimitBinding,
  RateLimiterDO,
} from "sluice/cloudflare";
import { rateLimit } from "sluice/fetch";
import { storeSuite } from "sluice/testing";
import { failuresOf } from "../collect.ts";
import { errorOf, workerOf } from "./tasks.ts";

export { RateLimiterDO };

interface Env {
  KV: KVNamespaceLike;
  RL: RateLimitBinding;
  OBJECTS: DurableObjectNamespaceLike;
  SERVICE: object;
}

/** The same KV as another isolate has it: what one store on it knows, another does not. */
class Isolate implements KVNamespaceLike {
  reads = 0;
  writes: { expirationTtl: number; value: string }[] = [];
  /** What reads and writes wait for. */
  beforeRead: () => Promise<unknown> = async () => {};
  beforeWrite: () => Promise<unknown> = async () => {};
  /** What is read instead, while it is set. */
  stale: string | null | undefined;
  private readonly kv: KVNamespaceLike;

  constructor(kv: KVNamespaceLike) {
    this.kv = kv;
  }

  async get(key: string): Promise<string | null> {
    this.reads++;
    const value = await this.kv.get(key);
    await this.beforeRead();
    return this.stale === undefined ? value : this.stale;
  }

  async put(key: string, value: string, options: { expirationTtl: number }): Promise<void> {
    await this.beforeWrite();
    this.writes.push({ ...options, value });
    await this.kv.put(key, value, options);
  }

  delete(key: string): Promise<void> {
    return this.kv.delete(key);
  }
}

/** Opens when so many have come. */
function barrier(count: number): () => Promise<void> {
  let [come, open] = [0, () => {}];
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return () => {
    if (++come >= count) open();
    return opened;
  };
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const { now: realNow } = Date;
let made = 0;
/** A key that nobody has used before. */
const fresh = () => `${realNow()} ${made++}`;

function admitted(decisions: readonly Decision[]): number {
  return decisions.filter(({ allowed }) => allowed).length;
}

/** What is left, by a look. */
async function left(limiter: RateLimiter, key: string): Promise<number> {
  return (await limiter.peek(key, 0)).remaining;
}

const FIVE = fixedWindow("5/1h");
/** At the end of an hour a window would end too. */
const midWindow = () => {
  const start = realNow();
  Date.now = () => start - (start % 3_600_000) + 1_800_000 + (realNow() - start);
};

export default workerOf<Env>({
  async kit({ KV }, { algorithm }: { algorithm: "fixed-window" | "sliding-window" | "sliding-log" }) {
    return failuresOf(({ describe, it }) =>
      storeSuite("KV", () => kvStore(new Isolate(KV)), {
        describe,
        it,
        level: "approximate",
        algorithms: [algorithm],
      }),
    );
  },

  /** So many isolates with one request each, all of which read before the first one writes. */
  async isolates({ KV }, { isolates }: { isolates: number }) {
    midWindow();
    const key = fresh();
    const allHaveRead = barrier(isolates);
    const limiters = Array.from({ length: isolates }, () => {
      const kv = new Isolate(KV);
      kv.beforeRead = allHaveRead;
      return kvRateLimiter(kv, FIVE);
    });
    const decisions = await Promise.all(limiters.map((limiter) => limiter.consume(key)));
    Date.now = realNow;
    return { admitted: admitted(decisions), marked: decisions.every(({ approximate }) => approximate) };
  },

  /** So many requests of one isolate, all of which read before the first one writes. */
  async oneIsolate({ KV }, { requests }: { requests: number }) {
    midWindow();
    const kv = new Isolate(KV);
    kv.beforeRead = barrier(requests);
    const limiter = kvRateLimiter(kv, FIVE);
    const key = fresh();
    const decisions = await Promise.all(Array.from({ length: requests }, () => limiter.consume(key)));
    Date.now = realNow;
    return admitted(decisions);
  },

  /** Each isolate alone admits the limit, for as long as it sees no other: the bound that the docs state. */
  async bound({ KV }, { isolates }: { isolates: number }) {
    midWindow();
    const key = fresh();
    const allHaveRead = barrier(isolates);
    const each = await Promise.all(
      Array.from({ length: isolates }, async () => {
        const kv = new Isolate(KV);
        kv.beforeRead = allHaveRead;
        const limiter = kvRateLimiter(kv, FIVE);
        const decisions: Decision[] = [];
        for (let i = 0; i < 20; i++) decisions.push(await limiter.consume(key));
        return admitted(decisions);
      }),
    );
    Date.now = realNow;
    return each;
  },

  /** Isolates that see each other's writes count together. */
  async sharing({ KV }) {
    midWindow();
    const key = fresh();
    const counts: number[] = [];
    for (let i = 0; i < 3; i++) {
      const limiter = kvRateLimiter(new Isolate(KV), FIVE);
      counts.push(admitted(await Promise.all([limiter.consume(key), limiter.consume(key)])));
      // What came second waits for the next call of this isolate, a second later.
      await sleep(1010);
      counts.push(await left(limiter, key));
    }
    Date.now = realNow;
    return counts;
  },

  /** Windows that are shorter than the shortest time to live. */
  async short({ KV }, { algorithm }: { algorithm: "fixed-window" | "sliding-window" | "sliding-log" }) {
    let now = realNow();
    now -= now % 10_000;
    Date.now = () => now;
    const kv = new Isolate(KV);
    const policy = { "fixed-window": fixedWindow, "sliding-window": slidingWindow, "sliding-log": slidingLog }[
      algorithm
    ];
    const limiter = kvRateLimiter(kv, policy("3/10s"), { localDenialMs: 0 });
    const key = fresh();
    const verdicts: boolean[] = [];
    const ask = async () => verdicts.push((await limiter.consume(key)).allowed);
    for (let i = 0; i < 4; i++) await ask();
    now += 9_999;
    await ask();
    now += algorithm === "sliding-window" ? 10_001 : 1;
    await ask();
    Date.now = realNow;
    return { verdicts, ttls: kv.writes.map(({ expirationTtl }) => expirationTtl) };
  },

  /** The time to live of a long window. */
  async long({ KV }) {
    const kv = new Isolate(KV);
    await kvRateLimiter(kv, slidingLog("3/1d")).consume(fresh());
    return kv.writes.map(({ expirationTtl }) => expirationTtl);
  },

  /** A busy key is written once a second, and the last of it too where there is a way to wait for it. */
  async coalescing({ KV }, { waits }: { waits: boolean }) {
    const kv = new Isolate(KV);
    const waiting: Promise<unknown>[] = [];
    const limiter = kvRateLimiter(kv, fixedWindow("1000/1d"), {
      ...(waits ? { waitUntil: (promise: Promise<unknown>) => waiting.push(promise) } : {}),
    });
    const key = fresh();
    for (let i = 0; i < 40; i++) {
      await Promise.all([limiter.consume(key), limiter.consume(key), limiter.consume(key)]);
      await sleep(10);
    }
    await Promise.all(waiting);
    const [account] = Object.values(JSON.parse(kv.writes.at(-1)?.value ?? "{}").isolates ?? {}) as number[][];
    return {
      writes: kv.writes.length,
      reads: kv.reads,
      // The version of the account, the start of the window, and the count.
      written: account?.[2],
      left: await left(limiter, key),
    };
  },

  /** A request does not wait for its write where that can be waited for later. */
  async waiting({ KV }) {
    const kv = new Isolate(KV);
    let write = () => {};
    kv.beforeWrite = () =>
      new Promise<void>((resolve) => {
        write = resolve;
      });
    const waiting: Promise<unknown>[] = [];
    const limiter = kvRateLimiter(kv, FIVE, { waitUntil: (promise) => waiting.push(promise) });
    const { allowed } = await limiter.consume(fresh());
    const before = kv.writes.length;
    write();
    await Promise.all(waiting);
    return { allowed, before, after: kv.writes.length };
  },

  /** A read that still shows what was there before a write of our own. */
  async stale({ KV }) {
    midWindow();
    const kv = new Isolate(KV);
    const limiter = kvRateLimiter(kv, FIVE, { localDenialMs: 0 });
    const key = fresh();
    await limiter.consume(key, 5);
    kv.stale = null;
    const verdicts: boolean[] = [];
    for (let i = 0; i < 2; i++) {
      await sleep(1010);
      verdicts.push((await limiter.consume(key)).allowed);
    }
    Date.now = realNow;
    return { verdicts, reads: kv.reads };
  },

  /** What is left to do by hand. */
  async byHand({ KV }) {
    midWindow();
    const kv = new Isolate(KV);
    const limiter = kvRateLimiter(kv, { ...FIVE, name: "by hand" });
    const key = fresh();
    await limiter.consume(key, 4);
    const inspected = await limiter.inspect(key);
    await limiter.refund(key, 3);
    const refunded = await left(limiter, key);
    await limiter.reset(key);
    const after = { left: await left(limiter, key), found: (await limiter.inspect(key)).found };
    Date.now = realNow;
    return { inspected, refunded, ...after };
  },

  /** Two windows at once, all or none. */
  async both({ KV }) {
    midWindow();
    const kv = new Isolate(KV);
    const [hourly, daily] = [kvRateLimiter(kv, fixedWindow("3/1h")), kvRateLimiter(kv, fixedWindow("10/1d"))];
    const key = fresh();
    const decisions: Decision[] = [];
    for (let i = 0; i < 6; i++) decisions.push(await combine([hourly, daily]).consume(key));
    const seen = { admitted: admitted(decisions), daily: await left(daily, key), denied: decisions.at(-1) };
    Date.now = realNow;
    return seen;
  },

  /** Writes that are refused, and a KV that is down. */
  async faults({ KV }) {
    midWindow();
    const busy = new Isolate(KV);
    busy.beforeWrite = async () => {
      throw new Error("KV PUT failed: 429 Too Many Requests");
    };
    const limiter = kvRateLimiter(busy, FIVE, { onStoreError: "throw" });
    const key = fresh();
    const decisions: Decision[] = [];
    for (let i = 0; i < 7; i++) decisions.push(await limiter.consume(key));
    busy.beforeWrite = async () => {};
    await sleep(1010);
    await limiter.consume(key);
    const down = new Isolate(KV);
    down.beforeRead = async () => {
      throw new Error("KV GET failed: 503");
    };
    const degraded = await kvRateLimiter(down, FIVE).consume(key);
    Date.now = realNow;
    return {
      admitted: admitted(decisions),
      writes: busy.writes.length,
      degraded: degraded.degraded,
      allowed: degraded.allowed,
    };
  },

  /** Limiters that are made for every request, each with a function of its own, while what they ask is down. */
  async perRequest({ KV, RL }) {
    midWindow();
    const down = new Isolate(KV);
    down.beforeRead = async () => {
      throw new Error("KV GET failed: 503");
    };
    const broken = {
      limit: async (): Promise<{ success: boolean }> => {
        throw new Error("down");
      },
    };
    const overKV = () => kvRateLimiter(down, FIVE, { waitUntil: (promise) => void promise });
    const overBinding = () => bindingRateLimiter(broken, fixedWindow("5/60s"));
    const [byKV, byBinding]: [Decision[], Decision[]] = [[], []];
    for (let i = 0; i < 50; i++) {
      byKV.push(await overKV().consume("k"));
      byBinding.push(await overBinding().consume("k"));
    }
    // And two policies on one binding.
    const key = fresh();
    const [login, search] = ["login", "search"].map((name) => bindingRateLimiter(RL, fixedWindow("20/60s", { name })));
    const spent = await Promise.all(Array.from({ length: 30 }, () => login?.consume(key)));
    const other = await search?.consume(key);
    Date.now = realNow;
    return {
      byKV: admitted(byKV),
      byBinding: admitted(byBinding),
      login: admitted(spent as Decision[]),
      search: other?.allowed,
    };
  },

  /** Values that no store has written. */
  async foreign({ KV }) {
    midWindow();
    const verdicts: unknown[] = [];
    for (const value of [
      "",
      "garbage",
      "[]",
      "{}",
      '{"state":"x"}',
      '{"state":[1]}',
      '{"state":[-1,2]}',
      '{"state":[1,2,3,4]}',
      "null",
    ]) {
      const key = fresh();
      const limiter = kvRateLimiter(new Isolate(KV), FIVE, { onStoreError: "throw" });
      const { storedKey } = await limiter.inspect(key);
      await KV.put(storedKey, value, { expirationTtl: 60 });
      verdicts.push((await limiter.consume(key, 5)).allowed);
    }
    Date.now = realNow;
    return verdicts;
  },

  /** The binding: as many as it is set to, and nothing else is known. */
  async binding({ RL }) {
    const limiter = bindingRateLimiter(RL, fixedWindow("20/60s"));
    const key = fresh();
    const decisions = await Promise.all(Array.from({ length: 60 }, () => limiter.consume(key)));
    const refusals = {
      peek: await errorOf(() => limiter.peek(key)),
      refund: await errorOf(() => limiter.refund(key, 1)),
      reset: await errorOf(() => limiter.reset(key)),
      inspect: await errorOf(() => limiter.inspect(key)),
      cost: await errorOf(() => limiter.consume(key, 2)),
      combine: await errorOf(() => combine([limiter, memoryRateLimiter(tokenBucket("1/s"))])),
    };
    return {
      admitted: admitted(decisions),
      allowed: decisions.find(({ allowed }) => allowed),
      denied: decisions.find(({ allowed }) => !allowed),
      free: await limiter.consume(key, 0),
      never: await limiter.consume(key, 21),
      consistency: limiter.consistency,
      refusals,
    };
  },

  /** Over HTTP no figures are told that nobody knows. */
  async bindingOverHttp({ RL }) {
    const handler = rateLimit({ limiter: bindingRateLimiter(RL, fixedWindow("20/60s")), key: () => "everybody" })(
      async () => new Response("hello"),
    );
    const seen: { status: number; fields: string[]; retryAfter: string | null }[] = [];
    for (let i = 0; i < 21; i++) {
      const { status, headers } = await handler(new Request("https://example.com/"));
      seen.push({
        status,
        fields: [...headers.keys()].filter((name) => name.includes("ratelimit")),
        retryAfter: headers.get("Retry-After"),
      });
    }
    return [seen[0], seen[20]];
  },

  /** A cheap ring before the exact one. */
  async hybrid({ KV, RL, OBJECTS }) {
    midWindow();
    let calls = 0;
    const counted = {
      idFromName: (name: string) => OBJECTS.idFromName(name),
      get(id: never) {
        calls++;
        return OBJECTS.get(id);
      },
    };
    const exactly = (policy: Policy) => durableObjectRateLimiter(counted, policy, { localDenialMs: 0 });
    const key = fresh();
    // The first ring binds: what it denies never reaches an object.
    const flood = hybridRateLimiter(kvRateLimiter(new Isolate(KV), fixedWindow("5/1h")), exactly(fixedWindow("8/1h")));
    const flooded: Decision[] = [];
    for (let i = 0; i < 50; i++) flooded.push(await flood.consume(key));
    const floodCalls = calls;
    // The exact one binds, and the first one is given back what it took for nothing.
    const ring = kvRateLimiter(new Isolate(KV), fixedWindow("8/2h"));
    const tight = hybridRateLimiter(ring, exactly(fixedWindow("5/2h")));
    const denied: Decision[] = [];
    for (let i = 0; i < 20; i++) denied.push(await tight.consume(key));
    // A binding can't be given anything back, and is not asked to.
    const bound = hybridRateLimiter(bindingRateLimiter(RL, fixedWindow("20/60s")), exactly(slidingLog("3/1h")));
    const bounded: Decision[] = [];
    for (let i = 0; i < 6; i++) bounded.push(await bound.consume(key));
    await bound.refund(key, 1);
    const looked = await bound.peek(key);
    // A ring that is down is passed by.
    const down = new Isolate(KV);
    down.beforeRead = async () => {
      throw new Error("KV GET failed: 503");
    };
    const alone = hybridRateLimiter(
      kvRateLimiter(down, fixedWindow("1/1h"), { onStoreError: "closed" }),
      exactly(slidingLog("3/2h")),
    );
    const past = await Promise.all(Array.from({ length: 6 }, () => alone.consume(key)));
    const throwing = hybridRateLimiter(
      kvRateLimiter(down, fixedWindow("1/3h"), { onStoreError: "throw" }),
      exactly(slidingLog("3/3h")),
    );
    const thrown = (await throwing.consume(key)).allowed;
    // A binding counts requests, whatever they cost.
    const costly = (await bound.consume(fresh(), 3)).allowed;
    const seen = {
      flooded: admitted(flooded),
      floodCalls,
      final: flooded.at(-1)?.approximate,
      denied: admitted(denied),
      exactly: denied.at(-1)?.approximate ?? false,
      ringLeft: await left(ring, key),
      bounded: admitted(bounded),
      looked: looked.allowed,
      past: admitted(past),
      thrown,
      costly,
      consistency: tight.consistency,
      policy: tight.getPolicy().limit,
    };
    Date.now = realNow;
    return seen;
  },

  /** Bindings of the wrong kind, and policies that they can't count. */
  async input({ KV, RL, OBJECTS, SERVICE }) {
    const exact = durableObjectRateLimiter(OBJECTS, tokenBucket("5/s"));
    return {
      kvMissing: await errorOf(() => kvStore(undefined as never)),
      kvIsObjects: await errorOf(() => kvStore(OBJECTS as never)),
      kvIsBinding: await errorOf(() => kvRateLimiter(RL as never, FIVE)),
      kvIsService: await errorOf(() => kvStore(SERVICE as never)),
      kvBucket: await errorOf(() => kvRateLimiter(KV, tokenBucket("5/s"))),
      kvQueue: await errorOf(() =>
        createLimiter({ policy: { algorithm: "leaky-bucket", capacity: 1, leaksPerSecond: 1 }, store: kvStore(KV) }),
      ),
      kvOption: await errorOf(() => kvStore(KV, { ttl: 5 } as never)),
      kvWaitUntil: await errorOf(() => kvStore(KV, { waitUntil: 5 } as never)),
      objectsAreKV: await errorOf(() => durableObjectStore(KV as never)),
      objectsAreService: await errorOf(() => durableObjectStore(SERVICE as never)),
      bindingMissing: await errorOf(() => bindingRateLimiter(undefined as never, fixedWindow("20/60s"))),
      bindingIsKV: await errorOf(() => bindingRateLimiter(KV as never, fixedWindow("20/60s"))),
      bindingIsService: await errorOf(() => bindingRateLimiter(SERVICE as never, fixedWindow("20/60s"))),
      bindingPeriod: await errorOf(() => bindingRateLimiter(RL, fixedWindow("20/30s"))),
      bindingAlgorithm: await errorOf(() => bindingRateLimiter(RL, tokenBucket("20/s"))),
      hybridFirst: await errorOf(() => hybridRateLimiter(undefined as never, exact)),
      hybridExact: await errorOf(() => hybridRateLimiter(exact, kvRateLimiter(KV, FIVE))),
    };
  },
});
