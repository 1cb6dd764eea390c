/** The option `keyPrefix` of the Redis stores: every key has it, also in a Cluster and for an ACL user. */
import { Redis as UpstashRedis } from "@upstash/redis";
import { Cluster, Redis } from "ioredis";
import { createClient } from "redis";
import { combine, concurrency, hold, slidingLog, tokenBucket } from "sluice";
import { redisIdempotencyStore, redisRateLimiter, redisStore } from "sluice/redis";
import { upstashIdempotencyStore, upstashRateLimiter } from "sluice/upstash";
import { describe, expect, it, onTestFinished } from "vitest";
import { withRedis } from "../servers/needs.ts";
import { startCluster } from "../servers/redis-cluster.js";
import { startUpstashBridge } from "../servers/upstash-bridge.js";
import { redis, server } from "./own-redis.ts";
import { withEmptyDatabase } from "./spied-client.ts";

const keyPrefix = "my-app:";
const claim = { scope: "ada", key: "k", fingerprint: "f", owner: "o", leaseMs: 60_000, ttlMs: 60_000 };
const POLICIES = [tokenBucket("10/m"), slidingLog("10/m"), concurrency(3)];

withEmptyDatabase();

/** Both clients, connected as the given user until the test has finished. node-redis has no prefix of its own. */
const CLIENTS = {
  async ioredis(user: { readonly username?: string; readonly password?: string } = {}) {
    const client = new Redis(server.port, user);
    onTestFinished(() => client.disconnect());
    return client;
  },
  async "node-redis"(user: { readonly username?: string; readonly password?: string } = {}) {
    const client = createClient({ url: server.url, ...user });
    onTestFinished(() => client.destroy());
    return client.connect();
  },
};

describe.each(Object.entries(CLIENTS))("keyPrefix, %s", withRedis, (_, connect) => {
  it("precedes every key that a store writes, and the stored key of inspect", async () => {
    const client = await connect();
    for (const policy of POLICIES) {
      const limiter = redisRateLimiter(client, policy, { keyPrefix, onStoreError: "throw" });
      if (limiter.getPolicy().algorithm !== "concurrency") await limiter.consume("k");
      await hold(limiter, "k", 1);
      expect((await limiter.inspect("k")).storedKey).toMatch(/^my-app:s1:\{k\}/);
    }
    await redisIdempotencyStore(client, { keyPrefix }).begin(claim);
    const keys = await redis.keys("*");
    expect([keys.length, keys.filter((key) => !/^my-app:(s1:\{k\}|i1:\{[0-9a-f]{32}\}$)/.test(key))]).toEqual([4, []]);
  });

  it("separates the budgets of two applications, and those of one share a store", async () => {
    const client = await connect();
    const [one, other] = ["one:", "two:"].map((prefix) => redisRateLimiter(client, "1/m", { keyPrefix: prefix }));
    expect([(await one?.consume("k"))?.allowed, (await other?.consume("k"))?.allowed]).toEqual([true, true]);
    expect((await one?.consume("k"))?.allowed).toBe(false);
    const both = combine([
      redisRateLimiter(client, tokenBucket("5/m"), { keyPrefix }),
      redisRateLimiter(client, tokenBucket("9/h"), { keyPrefix }),
    ]);
    expect((await both.consume("k", 5)).parts).toHaveLength(2);
  });

  it("is all that an ACL user needs, together with the documented commands", async () => {
    const commands = "+eval +evalsha +get +set +del +pttl +time +getrange +info +ping +select".split(" ");
    await redis.acl("SETUSER", "prefixed", "reset", "on", ">pass", "~my-app:s1:*", "~my-app:i1:*", ...commands);
    const client = await connect({ username: "prefixed", password: "pass" });
    onTestFinished(async () => void (await redis.acl("DELUSER", "prefixed")));
    const limiter = redisRateLimiter(client, "10/m", { keyPrefix, onStoreError: "throw" });
    expect((await limiter.consume("k")).remaining).toBe(9);
    expect(await redisIdempotencyStore(client, { keyPrefix }).begin(claim)).toEqual({ state: "started", attempt: 1 });
    const without = redisRateLimiter(client, "10/m", { onStoreError: "throw" });
    await expect(without.consume("k")).rejects.toMatchObject({ code: "store-unavailable" });
  });
});

describe("keyPrefix", withRedis, () => {
  it("precedes the keys of Upstash", async () => {
    const bridge = await startUpstashBridge(server.port);
    onTestFinished(() => bridge.stop());
    const upstash = new UpstashRedis({ url: bridge.url, token: bridge.token, retry: { retries: 0 } });
    await upstashRateLimiter(upstash, "10/m", { keyPrefix }).consume("k");
    await upstashIdempotencyStore(upstash, { keyPrefix }).begin(claim);
    expect((await redis.keys("*")).sort()).toEqual([
      expect.stringMatching(/^my-app:i1:/),
      expect.stringMatching(/^my-app:s1:/),
    ]);
  });

  it("does not change the slots of a Cluster", async () => {
    const cluster = await startCluster();
    const client = new Cluster(cluster.ports.map((port) => ({ host: "127.0.0.1", port })));
    onTestFinished(async () => {
      client.disconnect();
      await cluster.stop();
    });
    const limits = POLICIES.map((policy) => redisRateLimiter(client, policy, { keyPrefix, onStoreError: "throw" }));
    const responses = redisIdempotencyStore(client, { keyPrefix });
    for (let i = 0; i < 30; i++) {
      expect((await combine(limits.slice(0, 2)).consume(`user:${i}`)).parts).toHaveLength(2);
      expect((await responses.begin({ ...claim, key: `k${i}` })).state).toBe("started");
    }
  });

  it.each(["", " ", "a b", "{app}", "a}", "é", "a\n", "x".repeat(65), 7, null])("is rejected: %j", (invalid) => {
    const options = { keyPrefix: invalid as string };
    const rejected = expect.objectContaining({ code: "invalid-option", option: "keyPrefix" });
    expect(() => redisStore(redis, options)).toThrow(rejected);
    expect(() => redisRateLimiter(redis, "1/s", options)).toThrow(rejected);
    expect(() => redisIdempotencyStore(redis, options)).toThrow(rejected);
  });
});
