/** Other properties of the Redis store: long logs, retries of denied callers, misuse. */
import { createLimiter, SluiceError, slidingLog, tokenBucket } from "sluice";
import { redisRateLimiter, redisStore } from "sluice/redis";
import { describe, expect, it } from "vitest";
import { withRedis } from "../servers/needs.ts";
import { redis, server } from "./own-redis.ts";
import { spiedClient, storeOnly, withEmptyDatabase } from "./spied-client.ts";

withEmptyDatabase();

describe("issue 13: a sliding log of 10 000 grants", withRedis, () => {
  const policy = slidingLog({ limit: 10_000, windowMs: 3_600_000, name: "long" });
  const [grants, span] = [9_900, 3_000_000];

  /** Fills a log with grants at decreasing distances. */
  async function fill(key: string): Promise<void> {
    const now = Date.now();
    const list = ["0"];
    for (let i = 1; i <= grants; i++) {
      list.push(`${now + 500_000 + Math.floor(span * (1 - (1 - i / grants) ** 3))}`, `${i}`);
    }
    for (let i = 0; i < list.length; i += 1000) await redis.rpush(key, ...list.slice(i, i + 1000));
    await redis.pexpire(key, 3_600_000);
  }

  /** Counts the commands that the script runs for a decision. */
  async function commandsOf(decide: () => Promise<unknown>): Promise<number> {
    await redis.config("RESETSTAT");
    await decide();
    const stats = await redis.info("commandstats");
    const counts = [...stats.matchAll(/cmdstat_([a-z|]+):calls=(\d+)/g)];
    const others = ["evalsha", "config|resetstat", "info", "eval"];
    return counts.reduce((sum, [, name, calls]) => sum + (others.includes(name as string) ? 0 : Number(calls)), 0);
  }

  it("is decided by reading a few of its grants", async () => {
    const limiter = createLimiter({ policy, store: redisStore(redis), ...storeOnly });
    const { storedKey } = await limiter.inspect("k");
    await fill(storedKey);
    expect((await limiter.peek("k", 100)).allowed).toBe(true);
    expect((await limiter.peek("k", 101)).allowed).toBe(false);
    expect(await commandsOf(() => limiter.peek("k"))).toBeLessThanOrEqual(4);
    expect(await commandsOf(() => limiter.consume("k"))).toBeLessThanOrEqual(6);
    for (const cost of [1000, 5000, 9999]) {
      expect(await commandsOf(() => limiter.consume("k", cost)), `denied at ${cost}`).toBeLessThanOrEqual(4 + 3 + 14);
      expect(await commandsOf(() => limiter.refund("k", 1)), `refund at ${cost}`).toBeLessThanOrEqual(4 + 3 + 14 + 3);
    }
    await expect(limiter.inspect("k")).resolves.toMatchObject({
      raw: expect.stringMatching(/^0 \d+ 1 \d+ 2 .* \.\.\.$/),
    });
  });

  it("needs less than 16 bytes for a grant", async () => {
    await fill("long");
    expect(await redis.memory("USAGE", "long", "SAMPLES", 0)).toBeLessThan(16 * grants);
  });
});

describe("a retry after setTimeout(retryAfterMs)", withRedis, () => {
  it("reaches Redis each of 500 times, although timers fire early", async () => {
    const client = spiedClient();
    const limiter = redisRateLimiter(client, { capacity: 3, tokensPerSecond: "3/300ms", name: "waits" });
    const cached: string[] = [];
    const retry = async (key: string) => {
      let decision = await limiter.consume(key);
      while (decision.allowed) decision = await limiter.consume(key);
      await new Promise((resolve) => setTimeout(resolve, decision.retryAfterMs as number));
      const before = client.calls.filter(({ keys }) => keys.some((name) => name.includes(`{${key}}`))).length;
      await limiter.consume(key);
      const after = client.calls.filter(({ keys }) => keys.some((name) => name.includes(`{${key}}`))).length;
      if (after === before) cached.push(key);
    };
    for (let wave = 0; wave < 10; wave++) {
      client.calls.length = 0;
      await Promise.all(Array.from({ length: 50 }, (_, i) => retry(`w${wave}-${i}-`)));
    }
    expect(cached, "denied from the cache").toEqual([]);
  });
});

describe("misuse of redisStore", withRedis, () => {
  it("is rejected with an error that names the option", () => {
    const errorOf = (run: () => unknown) => {
      try {
        run();
      } catch (error) {
        return error as SluiceError;
      }
      throw new Error("no error");
    };
    expect(errorOf(() => redisStore(undefined as never)).message).toBe(
      "client must be an ioredis, iovalkey or node-redis client (for @upstash/redis, use sluice/upstash), but received undefined. See https://github.com/sluicejs/sluice/blob/main/docs/errors.md#invalid-option",
    );
    expect(errorOf(() => redisStore({} as never))).toBeInstanceOf(SluiceError);
    expect(errorOf(() => redisStore(redis, { policy: {} } as never)).message).toContain("createLimiter");
    expect(errorOf(() => redisStore(redis, { ttl: 5 } as never))).toMatchObject({
      code: "unknown-option",
      option: "ttl",
    });
    expect(errorOf(() => redisStore(redis, { ttlMs: -1 }))).toMatchObject({ code: "invalid-option", option: "ttlMs" });
    expect(errorOf(() => redisStore(redis, { ttlMs: "soon" }))).toMatchObject({ option: "ttlMs" });
    expect(errorOf(() => redisStore(redis, { secretKeys: "all" as never }))).toMatchObject({ option: "secretKeys" });
    expect(errorOf(() => redisStore(redis, { hmacSecret: "" })).message).not.toContain("received");
    expect(errorOf(() => redisRateLimiter(redis, tokenBucket("1/s"), { onStoreError: "deny" as never }))).toMatchObject(
      {
        code: "invalid-option",
        option: "onStoreError",
      },
    );
  });

  it("is reported for a node-redis client that was never connected", async () => {
    const { createClient } = await import("redis");
    const limiter = createLimiter({
      policy: tokenBucket("1/s"),
      store: redisStore(createClient({ url: server.url })),
      onStoreError: "throw",
    });
    await expect(limiter.consume("k")).rejects.toThrow(
      "The Redis client is not connected. With node-redis, call await client.connect() first.",
    );
  });
});
