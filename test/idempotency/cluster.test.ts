/** The idempotency store in a Redis Cluster: the contract suite, slots, two processes. */
import { Cluster } from "ioredis";
import { redisIdempotencyStore } from "sluice/redis";
import { idempotencySuite } from "sluice/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { entryName } from "../../src/idempotency/entry-name.ts";
import { hashSlot } from "../../src/stores/redis/hash-slot.ts";
import { describeWithRedis, hasRedis, withRedis } from "../servers/needs.ts";
import { type RedisCluster, startCluster } from "../servers/redis-cluster.js";
import { KEYS, startsPerKey } from "./two-processes.ts";

let cluster: RedisCluster;
let client: Cluster;
beforeAll(async () => {
  if (!hasRedis) return;
  cluster = await startCluster();
  client = new Cluster(cluster.ports.map((port) => ({ host: "127.0.0.1", port })));
});
afterAll(async () => {
  client?.disconnect();
  await cluster?.stop();
});

idempotencySuite("Redis Cluster, ioredis", () => redisIdempotencyStore(client), { describe: describeWithRedis, it });

describe("the slots of idempotency keys", withRedis, () => {
  it("do not depend on braces in scopes and keys", () => {
    const ids = Array.from({ length: 300 }, (_, i) => ({ scope: "{one}", key: `{one}${i}` }));
    const slots = ids.map((id) => hashSlot(entryName(id, {}).slice("i1:{".length, -1)));
    expect(new Set(slots).size).toBeGreaterThan(280);
  });

  it("are spread over all masters", async () => {
    const store = redisIdempotencyStore(client, { hmacSecret: "spread" });
    const claim = { scope: "{s}", fingerprint: "f", owner: "o", leaseMs: 60_000, ttlMs: 60_000 };
    await cluster.callAll("FLUSHALL");
    await Promise.all(Array.from({ length: 90 }, (_, i) => store.begin({ ...claim, key: `{k}${i}` })));
    const sizes = (await cluster.callAll("DBSIZE")).map(Number);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(90);
    expect(Math.min(...sizes)).toBeGreaterThan(10);
  });
});

describe("two processes on one Redis Cluster", withRedis, () => {
  it("start each key once", async () => {
    const starts = await startsPerKey(`
      const { Cluster } = await import("ioredis");
      const { redisIdempotencyStore } = await import("sluice/redis");
      const nodes = ${JSON.stringify(cluster.ports.map((port) => ({ host: "127.0.0.1", port })))};
      const store = redisIdempotencyStore(new Cluster(nodes));
    `);
    expect(starts).toEqual(Array(KEYS).fill(1));
  });
});
