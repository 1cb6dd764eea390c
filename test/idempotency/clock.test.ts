/** The idempotency store on a redis-server whose clock steps: no lease has two owners. */
import { Redis } from "ioredis";
import { redisIdempotencyStore } from "sluice/redis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type ShiftedRedis, startShiftedRedis } from "../servers/clock-shim.js";
import { withShiftedRedis } from "../servers/needs.ts";

const HOUR_MS = 3_600_000;
const options = withShiftedRedis();

let server: ShiftedRedis;
let redis: Redis;
beforeAll(async () => {
  if ("skip" in options) return;
  server = await startShiftedRedis();
  redis = new Redis(server.port);
});
afterAll(async () => {
  redis?.disconnect();
  await server?.stop();
});

const claimOf = (key: string, owner: string) => {
  return { scope: "user", key, fingerprint: "f", owner, leaseMs: 30_000, ttlMs: 24 * HOUR_MS };
};
const response = { status: 200, headers: {}, body: new Uint8Array(1) };

describe("a server whose clock steps", options, () => {
  it("keeps a lease with its owner after a step back, and frees it one lease later", async () => {
    const store = redisIdempotencyStore(redis);
    server.shift(0);
    await store.begin(claimOf("back", "a"));
    server.shift(-HOUR_MS);
    const found = await store.begin(claimOf("back", "b"));
    expect(found).toMatchObject({ state: "in-progress", same: true });
    expect((found as { leaseMs: number }).leaseMs).toBeLessThanOrEqual(30_000);
    expect(await store.renew(claimOf("back", "a"), "a", 30_000)).toBe(true);
    server.shift(-HOUR_MS + 31_000);
    expect(await store.begin(claimOf("back", "b"))).toEqual({ state: "started", attempt: 2 });
    expect(await store.complete(claimOf("back", "a"), "a", response, HOUR_MS)).toBe(false);
  });

  it("counts a step forward as time: the lease ends, and its owner has lost it", async () => {
    const store = redisIdempotencyStore(redis);
    server.shift(0);
    await store.begin(claimOf("forward", "a"));
    server.shift(HOUR_MS);
    expect(await store.begin(claimOf("forward", "b"))).toEqual({ state: "started", attempt: 2 });
    expect(await store.renew(claimOf("forward", "a"), "a", 30_000)).toBe(false);
    server.shift(0);
    expect(await store.begin(claimOf("forward", "c"))).toMatchObject({ state: "in-progress" });
    expect(await store.complete(claimOf("forward", "b"), "b", response, HOUR_MS)).toBe(true);
  });

  it("keeps a response through a step back, until its TTL has passed by the server's clock", async () => {
    const store = redisIdempotencyStore(redis);
    server.shift(0);
    await store.begin(claimOf("response", "a"));
    await store.complete(claimOf("response", "a"), "a", response, HOUR_MS);
    server.shift(-HOUR_MS);
    expect(await store.begin(claimOf("response", "b"))).toMatchObject({ state: "completed" });
    server.shift(HOUR_MS + 1000);
    expect(await store.begin(claimOf("response", "b"))).toEqual({ state: "started", attempt: 1 });
  });
});
