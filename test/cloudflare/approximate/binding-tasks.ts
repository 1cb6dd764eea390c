/** Tasks that use the rate limit binding and hybrid limiters, or pass invalid bindings. */
import {
  combine,
  createLimiter,
  type Decision,
  fixedWindow,
  memoryRateLimiter,
  type Policy,
  slidingLog,
  tokenBucket,
} from "sluice";
import { compilePolicy } from "sluice/algorithms";
import {
  bindingRateLimiter,
  durableObjectRateLimiter,
  durableObjectStore,
  hybridRateLimiter,
  kvRateLimiter,
  kvStore,
} from "sluice/cloudflare";
import { rateLimit } from "sluice/fetch";
import { errorOf, type Tasks } from "../tasks.ts";
import { countAllowed, type Env, FIVE, freshKey, realNow, remainingOf, SpiedKV, startMidWindow } from "./spied-kv.ts";

export const bindingTasks: Tasks<Env> = {
  /** Creates limiters per request, each with its own waitUntil, while their stores fail. */
  async limitersPerRequest({ KV, RL }) {
    startMidWindow();
    const down = new SpiedKV(KV);
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
    // Two policies on one binding.
    const key = freshKey();
    const [login, search] = ["login", "search"].map((name) => bindingRateLimiter(RL, fixedWindow("20/60s", { name })));
    const spent = await Promise.all(Array.from({ length: 30 }, () => login?.consume(key)));
    const other = await search?.consume(key);
    Date.now = realNow;
    return {
      byKV: countAllowed(byKV),
      byBinding: countAllowed(byBinding),
      login: countAllowed(spent as Decision[]),
      search: other?.allowed,
    };
  },

  /** Consumes from the binding and calls the methods that it does not support. */
  async binding({ RL }) {
    const limiter = bindingRateLimiter(RL, fixedWindow("20/60s"));
    const key = freshKey();
    const decisions = await Promise.all(Array.from({ length: 60 }, () => limiter.consume(key)));
    const errors = {
      peek: await errorOf(() => limiter.peek(key)),
      refund: await errorOf(() => limiter.refund(key, 1)),
      reset: await errorOf(() => limiter.reset(key)),
      inspect: await errorOf(() => limiter.inspect(key)),
      cost: await errorOf(() => limiter.consume(key, 2)),
      combine: await errorOf(() => combine([limiter, memoryRateLimiter(tokenBucket("1/s"))])),
    };
    return {
      admitted: countAllowed(decisions),
      allowed: decisions.find(({ allowed }) => allowed),
      denied: decisions.find(({ allowed }) => !allowed),
      free: await limiter.consume(key, 0),
      never: await limiter.consume(key, 21),
      consistency: limiter.consistency,
      errors,
    };
  },

  /** Returns the headers of an allowed and of a rejected request. */
  async bindingOverHttp({ RL }) {
    const handler = rateLimit({ limiter: bindingRateLimiter(RL, fixedWindow("20/60s")), key: () => "shared" })(
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

  /** Consumes from hybrid limiters whose first limiter denies, allows or fails. */
  async hybrid({ KV, RL, OBJECTS }) {
    startMidWindow();
    let calls = 0;
    const counted = {
      idFromName: (name: string) => OBJECTS.idFromName(name),
      get(id: never) {
        calls++;
        return OBJECTS.get(id);
      },
    };
    const exactLimiter = (policy: Policy) => durableObjectRateLimiter(counted, policy, { localDenialMs: 0 });
    const key = freshKey();
    // The first limiter is tighter: what it denies never reaches an object.
    const loose = hybridRateLimiter(
      kvRateLimiter(new SpiedKV(KV), fixedWindow("5/1h")),
      exactLimiter(fixedWindow("8/1h")),
    );
    const flooded: Decision[] = [];
    for (let i = 0; i < 50; i++) flooded.push(await loose.consume(key));
    const floodCalls = calls;
    // The exact limiter is tighter, and its denials are refunded to the first one.
    const first = kvRateLimiter(new SpiedKV(KV), fixedWindow("8/2h"));
    const tight = hybridRateLimiter(first, exactLimiter(fixedWindow("5/2h")));
    const denied: Decision[] = [];
    for (let i = 0; i < 20; i++) denied.push(await tight.consume(key));
    // A binding can't be refunded, so it is not.
    const withBinding = hybridRateLimiter(
      bindingRateLimiter(RL, fixedWindow("20/60s")),
      exactLimiter(slidingLog("3/1h")),
    );
    const bindingDecisions: Decision[] = [];
    for (let i = 0; i < 6; i++) bindingDecisions.push(await withBinding.consume(key));
    await withBinding.refund(key, 1);
    const peeked = await withBinding.peek(key);
    // A first limiter whose store fails is skipped.
    const down = new SpiedKV(KV);
    down.beforeRead = async () => {
      throw new Error("KV GET failed: 503");
    };
    const closed = hybridRateLimiter(
      kvRateLimiter(down, fixedWindow("1/1h"), { onStoreError: "closed" }),
      exactLimiter(slidingLog("3/2h")),
    );
    const skipped = await Promise.all(Array.from({ length: 6 }, () => closed.consume(key)));
    const throwing = hybridRateLimiter(
      kvRateLimiter(down, fixedWindow("1/3h"), { onStoreError: "throw" }),
      exactLimiter(slidingLog("3/3h")),
    );
    const thrown = (await throwing.consume(key)).allowed;
    // A binding counts requests, whatever they cost.
    const costly = (await withBinding.consume(freshKey(), 3)).allowed;
    const seen = {
      flooded: countAllowed(flooded),
      floodCalls,
      approximateFlood: flooded.at(-1)?.approximate,
      denied: countAllowed(denied),
      approximateDenial: denied.at(-1)?.approximate ?? false,
      firstRemaining: await remainingOf(first, key),
      withBinding: countAllowed(bindingDecisions),
      peeked: peeked.allowed,
      skipped: countAllowed(skipped),
      thrown,
      costly,
      consistency: tight.consistency,
      policy: tight.getPolicy().limit,
    };
    Date.now = realNow;
    return seen;
  },

  /** Passes bindings of the wrong kind and policies that they don't support. */
  async invalidInput({ KV, RL, OBJECTS, SERVICE }) {
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
      kvResetInGroup: await errorOf(() =>
        kvStore(KV).apply([
          [
            { policy: compilePolicy(FIVE), key: "a", cost: 0, mode: "reset" },
            { policy: compilePolicy(FIVE), key: "b", cost: 1, mode: "take" },
          ],
        ]),
      ),
      kvPenalty: await errorOf(() =>
        kvStore(KV).apply([[{ policy: compilePolicy(FIVE), key: "a", cost: 1, mode: "penalty" }]]),
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
};
