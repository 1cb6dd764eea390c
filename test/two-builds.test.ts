/** Loads the ES module build and the CommonJS build in one process: they behave as one. Needs `npm run build`. */
import { createRequire } from "node:module";
import { Redis } from "ioredis";
import { afterEach, describe, expect, it } from "vitest";
import { redis, server } from "./redis/own-redis.ts";
import { freePort } from "./servers/free-port.js";

type Index = typeof import("../src/entries/index.ts");
type RedisEntry = typeof import("../src/entries/redis.ts");
type FetchEntry = typeof import("../src/entries/fetch.ts");
type ObserveEntry = typeof import("../src/entries/observe.ts");

const require = createRequire(import.meta.url);
// In variables, so that neither Vitest nor TypeScript resolves them to the source.
const dist = "../dist";
const esm: Index = await import(`${dist}/index.js`);
const cjs: Index = require(`${dist}/index.cjs`);
const esmRedis: RedisEntry = await import(`${dist}/redis.js`);
const cjsRedis: RedisEntry = require(`${dist}/redis.cjs`);
const esmFetch: FetchEntry = await import(`${dist}/fetch.js`);
const cjsFetch: FetchEntry = require(`${dist}/fetch.cjs`);
const esmObserve: ObserveEntry = await import(`${dist}/observe.js`);
const cjsObserve: ObserveEntry = require(`${dist}/observe.cjs`);

function caught(call: () => unknown): unknown {
  try {
    call();
  } catch (error) {
    return error;
  }
  return undefined;
}

describe("import and require in one process", () => {
  it("load two copies of the code", () => {
    expect(cjs.createLimiter).not.toBe(esm.createLimiter);
  });

  it.each([
    ["import", "require", esm, cjs],
    ["require", "import", cjs, esm],
  ])("recognise SluiceError: thrown by %s, caught by %s", (_thrower, _catcher, thrower, catcher) => {
    const error = caught(() => thrower.memoryRateLimiter("5/s").consumeSync("key", -1));
    expect(error instanceof catcher.SluiceError).toBe(true);
    expect(error instanceof thrower.SluiceError).toBe(true);
    expect(error).toMatchObject({ name: "SluiceError", code: "invalid-cost" });
  });

  it("recognise no other errors as SluiceError, and keep subclasses apart", () => {
    class Own extends esm.SluiceError {}
    const named = Object.assign(new Error("x"), { name: "SluiceError", code: "invalid-cost" });
    for (const value of [new Error("x"), named, undefined, null, { name: "SluiceError", code: "invalid-cost" }]) {
      expect(value instanceof esm.SluiceError).toBe(false);
    }
    expect(new cjs.SluiceError("disposed", "x") instanceof Own).toBe(false);
    expect(new Own("disposed", "x") instanceof Own).toBe(true);
    expect(new Own("disposed", "x") instanceof cjs.SluiceError).toBe(true);
  });

  it.each([
    ["import", "require", esmObserve, cjs, cjsFetch],
    ["require", "import", cjsObserve, esm, esmFetch],
  ])("observe: an observer of %s counts what %s decides", async (_observer, _limiter, observe, index, http) => {
    const observer = observe.createObserver();
    const policy = { capacity: 1, tokensPerSecond: 0.01, name: "api" };
    const limiter = index.createLimiter({ policy, observer });
    const handler = http.rateLimit({ limiter, key: () => "a", observer })(() => new Response("ok"));
    for (let i = 0; i < 3; i++) await handler(new Request("http://localhost/"));
    const counts = observer
      .metrics()
      .flatMap(({ name, samples }) => samples.map(({ labels, value }) => [name, labels.outcome, value].join(" ")));
    for (const name of ["requests_total", "decisions_total"]) {
      expect(counts).toContain(`${name} allowed 1`);
      expect(counts).toContain(`${name} denied 2`);
    }
    expect(observer.topKeys()).toMatchObject([{ rule: "api", count: 2 }]);
  });

  it("combine limiters of both builds, and refund decisions of the other", async () => {
    const first = esm.memoryRateLimiter("10/h");
    const second = cjs.memoryRateLimiter("5/h");
    const both = cjs.combine([first, second]);
    const decision = both.consumeSync?.("key", 3);
    expect(decision).toMatchObject({ allowed: true, remaining: 2 });
    if (!decision) throw new Error("combine has no consumeSync");
    await both.refund("key", 3, decision);
    expect(first.consumeSync("key", 0).remaining).toBe(10);
    expect(second.consumeSync("key", 0).remaining).toBe(5);

    const single = cjs.memoryRateLimiter("5/h").consumeSync("key", 2);
    await expect(first.refund("key", 2, single)).resolves.toBeUndefined();
    await expect(first.refund("key", 2, { ...single })).rejects.toThrow("A copy of it can't be refunded");
  });

  it("find the decision of a request that the other build has limited", async () => {
    const request = new Request("http://localhost/");
    const limit = cjsFetch.rateLimit({ policy: "5/h", key: () => "key" });
    await limit(async () => new Response("ok"))(request);
    expect(esmFetch.getRateLimit(request)).toMatchObject({ allowed: true, remaining: 4 });
  });
});

describe("import and require on one Redis client", () => {
  afterEach(() => redis.flushall());

  it("use one store: a combination of both is one atomic step", async () => {
    const burst = esmRedis.redisRateLimiter(redis, "10/h");
    const daily = cjsRedis.redisRateLimiter(redis, "5/d");
    await esm.combine([burst, daily]).consume("warm-up");
    const before = await scriptCalls();
    expect(await esm.combine([burst, daily]).consume("key", 6)).toMatchObject({ allowed: false });
    expect(await burst.peek("key")).toMatchObject({ remaining: 10 });
    expect((await scriptCalls()) - before).toBe(2);
  });

  it("send calls of one tick in one round trip", async () => {
    const limiters = [esmRedis.redisRateLimiter(redis, "10/h"), cjsRedis.redisRateLimiter(redis, "10/h")];
    await Promise.all(limiters.map((limiter) => limiter.consume("warm-up")));
    const before = await scriptCalls();
    const decisions = await Promise.all(limiters.map((limiter) => limiter.consume("key")));
    expect(decisions.map(({ remaining }) => remaining)).toEqual([9, 8]);
    expect((await scriptCalls()) - before).toBe(1);
  });

  it("refuse two policies with one name", () => {
    const limiter = esmRedis.redisRateLimiter(redis, esm.tokenBucket("10/h", { name: "login" }));
    expect(() => cjsRedis.redisRateLimiter(redis, cjs.tokenBucket("20/h", { name: "login" }))).toThrow(
      'Another policy on this store is named "login"',
    );
    return limiter.dispose();
  });

  it("share cached denials, and drop them after a refund by the other build", async () => {
    const [one, other] = [esmRedis.redisRateLimiter(redis, "2/h"), cjsRedis.redisRateLimiter(redis, "2/h")];
    const granted = await one.consume("key", 2);
    expect((await one.consume("key")).source).toBeUndefined();
    expect(await other.consume("key")).toMatchObject({ allowed: false, source: "cache" });
    await other.refund("key", 2, granted);
    expect(await one.consume("key")).toMatchObject({ allowed: true, remaining: 1 });
  });

  it("share the circuit breaker and its events", async () => {
    const events: string[] = [];
    const onEvent = ({ type }: { type: string }) => events.push(type);
    const client = new Redis(await freePort(), {
      lazyConnect: true,
      retryStrategy: null,
      autoResendUnfulfilledCommands: false,
    });
    client.on("error", () => {});
    const one = esmRedis.redisRateLimiter(client, "100/h", { onEvent, onStoreError: "closed" });
    const other = cjsRedis.redisRateLimiter(client, "100/h", { onEvent, onStoreError: "closed" });
    for (let i = 0; i < 5; i++) expect((await one.consume("key")).allowed).toBe(false);
    expect(events).toEqual(["store-down", "store-down"]);
    expect(await other.consume("key")).toMatchObject({ allowed: false, unavailable: true, source: "closed" });
    client.disconnect();
  });

  /** Scripts that the server has run. */
  async function scriptCalls(): Promise<number> {
    expect(server.port).toBe(redis.options.port);
    const text = await redis.info("commandstats");
    return [...text.matchAll(/cmdstat_evalsha?:calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0);
  }
});
