/** What the store writes and when that expires. */
import { createLimiter, tokenBucket } from "sluice";
import { redisStore } from "sluice/redis";
import { describe, expect, it } from "vitest";
import { ALGORITHMS, policyOf } from "../../src/testing/subject.ts";
import { withRedis } from "../servers/needs.ts";
import { redis } from "./own-redis.ts";
import { storeOnly, withEmptyDatabase } from "./spied-client.ts";

withEmptyDatabase();

describe("expiry", withRedis, () => {
  it.each(ALGORITHMS)("%s: happens when the bucket is full", async (algorithm) => {
    const limiter = createLimiter({
      policy: policyOf(algorithm, 10, 60_000, "t"),
      store: redisStore(redis),
      ...storeOnly,
    });
    const before = performance.now();
    const { resetAfterMs } = await limiter.consume("k", 4);
    const { storedKey, ttlMs } = await limiter.inspect("k");
    const pttl = await redis.pttl(storedKey);
    const took = performance.now() - before;
    for (const left of [ttlMs as number, pttl]) {
      expect(left).toBeLessThanOrEqual(resetAfterMs);
      expect(left).toBeGreaterThanOrEqual(resetAfterMs - took - 2);
    }
  });

  it("leaves no key behind", async () => {
    const limiters = ALGORITHMS.map((algorithm) =>
      createLimiter({ policy: policyOf(algorithm, 10, 200, algorithm), store: redisStore(redis), ...storeOnly }),
    );
    await Promise.all(limiters.flatMap((limiter) => ["a", "b", "c"].map((key) => limiter.consume(key, 10))));
    expect(await redis.dbsize()).toBe(15);
    const until = performance.now() + 5000;
    // Redis deletes expired keys in the background, also if no client reads them.
    while ((await redis.dbsize()) > 0 && performance.now() < until) await new Promise((r) => setTimeout(r, 20));
    expect(await redis.dbsize()).toBe(0);
  });

  it("is delayed by ttlMs and never brought forward", async () => {
    const policy = tokenBucket("10/s", { burst: 10, name: "t" });
    await createLimiter({ policy, store: redisStore(redis, { ttlMs: "1h" }), ...storeOnly }).consume("long");
    expect(await redis.pttl("s1:{long}b1s:t")).toBeGreaterThan(3_590_000);
    await createLimiter({ policy, store: redisStore(redis, { ttlMs: 1 }), ...storeOnly }).consume("short", 10);
    expect(await redis.pttl("s1:{short}b1s:t")).toBeGreaterThan(900);
  });

  it("is set again by the next charge if a key has lost it", async () => {
    const limiter = createLimiter({
      policy: tokenBucket("10/s", { burst: 10, name: "t" }),
      store: redisStore(redis),
      ...storeOnly,
    });
    await limiter.consume("k");
    await redis.persist("s1:{k}b1s:t");
    await limiter.consume("k");
    expect(await redis.pttl("s1:{k}b1s:t")).toBeGreaterThan(0);
  });

  it("needs no key after a refund to full or a reset", async () => {
    for (const algorithm of ALGORITHMS) {
      const limiter = createLimiter({
        policy: policyOf(algorithm, 10, 60_000, "t"),
        store: redisStore(redis),
        ...storeOnly,
      });
      await limiter.consume("k", 4);
      await limiter.refund("k", 4);
      expect(await redis.dbsize(), algorithm).toBe(0);
      await limiter.consume("k", 4);
      await limiter.reset("k");
      await limiter.refund("absent", 4);
      await limiter.peek("absent");
      await limiter.consume("absent", 0);
      await limiter.consume("absent", 11);
      expect(await redis.dbsize(), algorithm).toBe(0);
      await limiter.dispose();
    }
  });
});

describe("a denial", withRedis, () => {
  it.each(ALGORITHMS)("%s: writes nothing", async (algorithm) => {
    const limiter = createLimiter({
      policy: policyOf(algorithm, 3, 3_600_000, "d"),
      store: redisStore(redis),
      ...storeOnly,
    });
    await limiter.consume("k", 3);
    const { storedKey } = await limiter.inspect("k");
    const before = await redis.dumpBuffer(storedKey);
    await redis.config("RESETSTAT");
    for (let i = 0; i < 20; i++) expect((await limiter.consume("k")).allowed).toBe(false);
    expect((await limiter.consume("k", 4)).retryAfterMs).toBeNull();
    expect(await redis.dumpBuffer(storedKey)).toEqual(before);
    const stats = await redis.info("commandstats");
    expect(stats).not.toMatch(/cmdstat_(set|del|rpush|lset|ltrim|pexpire):/);
  });
});

describe("a state dated one hour in the future", withRedis, () => {
  it.each(ALGORITHMS)("%s: denies for no longer than one refill", async (algorithm) => {
    const limiter = createLimiter({ policy: policyOf(algorithm, 4, 400, "h"), store: redisStore(redis), ...storeOnly });
    const hour = 3_600_000;
    const ahead = Date.now() + hour;
    const { storedKey } = await limiter.inspect("k");
    const value = { "fixed-window": `${ahead}:4`, "sliding-window": `${ahead}:4:4` };
    if (algorithm === "sliding-log") await redis.rpush(storedKey, 0, ahead - 1, 2, ahead, 4);
    else await redis.set(storedKey, value[algorithm as keyof typeof value] ?? String(ahead));
    await redis.pexpire(storedKey, 2 * hour);
    const denied = await limiter.consume("k", 4);
    expect(denied.allowed).toBe(false);
    const longest = algorithm === "sliding-window" ? 800 : 400;
    expect(denied.resetAfterMs).toBeLessThanOrEqual(longest);
    expect(await redis.pttl(storedKey), "clamped by the denial").toBeLessThanOrEqual(longest);
    await new Promise((resolve) => setTimeout(resolve, denied.resetAfterMs));
    expect((await limiter.consume("k", 4)).allowed).toBe(true);
  });
});

describe("a policy whose numbers change", withRedis, () => {
  it("keeps its state, as in memory", async () => {
    const limiterWith = (capacity: number, windowMs = 36_000_000) =>
      createLimiter({
        policy: { capacity, tokensPerSecond: (capacity * 1000) / windowMs, name: "plan" },
        store: redisStore(redis),
        ...storeOnly,
      });
    await limiterWith(10).consume("k", 10);
    expect((await limiterWith(20).peek("k")).remaining).toBe(0);
    expect((await limiterWith(5).peek("k")).remaining).toBe(0);
    // Another fill time starts new buckets.
    expect((await limiterWith(10, 1000).peek("k")).remaining).toBe(10);
  });
});
