/**
 * The usage blocks of the ws-kit proposal that work as written: the same imports, options and calls, with limits that tests
 * can exhaust. `packages/` maps the proposal's package names to sluice. One export per block, in the proposal's order.
 */

import { type DurableObjectNamespaceLike, durableObjectRateLimiter } from "@ws-kit/adapters/cloudflare-do";
import { memoryRateLimiter, type RateLimiter } from "@ws-kit/adapters/memory";
import { redisRateLimiter } from "@ws-kit/adapters/redis";
import type { Middleware } from "@ws-kit/core";
import { keyPerUserPerType, rateLimit } from "@ws-kit/middleware";
import { createClient } from "redis";
import { describe, expect, test } from "vitest";

/** The part of a router that the blocks use. */
export interface Router {
  use(middleware: Middleware): unknown;
}

/** Block 1: the quick start. */
export function quickStart(router: Router) {
  const limiter = rateLimit({
    limiter: memoryRateLimiter({ capacity: 3, tokensPerSecond: 0.001 }),
    key: keyPerUserPerType,
  });
  router.use(limiter);
}

/** Block 3: two limiters on one Redis connection. */
export async function limitersOnOneConnection(router: Router) {
  const redisClient = createClient({ url: process.env.REDIS_URL as string });
  const key = keyPerUserPerType;
  const cheap = redisRateLimiter(redisClient, { capacity: 20, tokensPerSecond: 0.001 });
  const expensive = redisRateLimiter(redisClient, { capacity: 11, tokensPerSecond: 0.001 });
  router.use(rateLimit({ limiter: cheap, key, cost: () => 1 }));
  router.use(rateLimit({ limiter: expensive, key, cost: () => 5 }));
  return redisClient.connect();
}

/** Block 4: one policy. */
export function onePolicy(router: Router) {
  const limiter = rateLimit({
    limiter: memoryRateLimiter({ capacity: 4, tokensPerSecond: 0.001 }),
    key: keyPerUserPerType,
    cost: (_ctx) => 1,
  });
  router.use(limiter);
}

/** Block 5: two policies in memory, with a cost by type. */
export function policiesInMemory(router: Router) {
  const cheap = memoryRateLimiter({ capacity: 20, tokensPerSecond: 0.001 });
  const expensive = memoryRateLimiter({ capacity: 10, tokensPerSecond: 0.001 });
  const cheapLimiter = rateLimit({ limiter: cheap, key: keyPerUserPerType, cost: (_ctx) => 1 });
  const expensiveLimiter = rateLimit({
    limiter: expensive,
    key: keyPerUserPerType,
    cost: (ctx) => (ctx.type.includes("Compute") ? 5 : 1),
  });
  router.use(cheapLimiter);
  router.use(expensiveLimiter);
}

/** Block 6: several processes share a limit in Redis. */
export async function processesShareRedis(router: Router) {
  const redisClient = createClient({ url: process.env.REDIS_URL as string });
  await redisClient.connect();
  const limiter = rateLimit({
    limiter: redisRateLimiter(redisClient, { capacity: 5, tokensPerSecond: 0.001 }),
    key: keyPerUserPerType,
    cost: (_ctx) => 1,
  });
  router.use(limiter);
  return redisClient;
}

/** Block 7: Durable Objects. */
export function durableObjects(router: Router, env: { RATE_LIMITER: DurableObjectNamespaceLike }) {
  const limiter = rateLimit({
    limiter: durableObjectRateLimiter(env.RATE_LIMITER, { capacity: 6, tokensPerSecond: 0.001 }),
    key: keyPerUserPerType,
    cost: (_ctx) => 1,
  });
  router.use(limiter);
}

/** Block 8: a clock in tests. Returns the decisions of 15 steps of 100 ms. */
export async function clockInTests() {
  const fakeTime = { current: Date.now() };
  const limiter = memoryRateLimiter({ capacity: 10, tokensPerSecond: 1 }, { clock: { now: () => fakeTime.current } });
  const allowed: boolean[] = [];
  for (let step = 0; step < 15; step++) {
    fakeTime.current += 100;
    const result = await limiter.consume("user:1", 1);
    allowed.push(result.allowed);
    if (!result.allowed) expect(result.retryAfterMs).toBeGreaterThan(0);
  }
  return allowed;
}

/** Block 9: a key of tenant, user and type. (The block also has a key by IP address, which it calls risky: block 13.) */
export function keyOfTenantAndUser(router: Router) {
  const limiter = rateLimit({
    limiter: memoryRateLimiter({ capacity: 3, tokensPerSecond: 0.001 }),
    key: (ctx) => {
      const tenant = ctx.ws.data?.tenantId ?? "public";
      const user = ctx.ws.data?.userId ?? "anon";
      return `rt:${tenant}:${user}:${ctx.type}`;
    },
  });
  router.use(limiter);
}

/** Block 10: costs by type, and by a member of the connection's data. */
export function costs(router: Router) {
  const byType = rateLimit({
    limiter: memoryRateLimiter({ capacity: 30, tokensPerSecond: 0.001 }),
    cost: (ctx) => (ctx.type === "Compute" ? 10 : 1),
  });
  const byTier = rateLimit({
    limiter: memoryRateLimiter({ capacity: 12, tokensPerSecond: 0.001 }),
    cost: (ctx) => {
      const tier: "free" | "basic" | "pro" = ctx.ws.data?.tier ?? "free";
      return { free: 2, basic: 1, pro: 1 }[tier];
    },
  });
  router.use(byType);
  router.use(byTier);
}

/** Block 14: a key per user, and the expiry of keys in Redis. (Its key per message, which it calls wrong, is in other-forms.ts.) */
export async function expiryInRedis(router: Router) {
  const redisClient = createClient({ url: process.env.REDIS_URL as string });
  await redisClient.connect();
  const limiter = redisRateLimiter(redisClient, { capacity: 7, tokensPerSecond: 1 });
  const longer = redisRateLimiter(redisClient, { capacity: 8, tokensPerSecond: 1 }, { ttlMs: 120_000 });
  const middleware = rateLimit({ limiter, key: (ctx) => `rt:${ctx.ws.data?.userId}` });
  const second = rateLimit({ limiter: longer, key: (ctx) => `rt:${ctx.ws.data?.userId}` });
  router.use(middleware);
  router.use(second);
  return redisClient;
}

/** Block 15: a cost above the capacity. */
export function costAboveCapacity() {
  const store = memoryRateLimiter({ capacity: 10, tokensPerSecond: 1 });
  return store.consume("user:1", 15);
}

/** Block 16: contract tests that every limiter passes. */
export function describeRateLimiter(name: string, createLimiter: () => RateLimiter | Promise<RateLimiter>) {
  describe(`RateLimiter: ${name}`, () => {
    const takes = async (count: number, key = "user:1", limiter = createLimiter()) => {
      const used = await limiter;
      return Promise.all(Array.from({ length: count }, () => used.consume(key, 1)));
    };
    test("allows and counts down", async () => {
      const [result] = await takes(1);
      expect(result).toMatchObject({ allowed: true, remaining: 9 });
      expect(result?.retryAfterMs).toBeUndefined();
    });
    test("denies with a wait", async () => {
      const denied = (await takes(11)).find(({ allowed }) => !allowed);
      expect(denied?.retryAfterMs).toBeGreaterThan(0);
    });
    test("charges a cost", async () => {
      expect(await (await createLimiter()).consume("user:1", 3)).toMatchObject({ allowed: true, remaining: 7 });
    });
    test("allows no more than the capacity at once", async () => {
      expect((await takes(15)).filter(({ allowed }) => allowed)).toHaveLength(10);
    });
    test("denies a cost above the capacity for ever", async () => {
      expect(await (await createLimiter()).consume("user:1", 11)).toMatchObject({ allowed: false, retryAfterMs: null });
    });
    test("separates keys", async () => {
      const limiter = await createLimiter();
      await takes(10, "user:1", limiter);
      expect(await limiter.consume("user:2", 1)).toMatchObject({ allowed: true, remaining: 9 });
    });
  });
}

/** Block 17: tests of several policies, in memory and on one Redis connection. */
export async function severalPolicies() {
  const cheap = memoryRateLimiter({ capacity: 10, tokensPerSecond: 1 });
  const expensive = memoryRateLimiter({ capacity: 5, tokensPerSecond: 1 });
  for (let i = 0; i < 10; i++) expect((await cheap.consume("user:1", 1)).allowed).toBe(true);
  expect((await cheap.consume("user:1", 1)).allowed).toBe(false);
  expect(await expensive.consume("user:1", 1)).toMatchObject({ allowed: true, remaining: 4 });

  const redisClient = createClient({ url: process.env.REDIS_URL as string });
  const limiter1 = redisRateLimiter(redisClient, { capacity: 100, tokensPerSecond: 50 });
  const limiter2 = redisRateLimiter(redisClient, { capacity: 10, tokensPerSecond: 2 });
  await redisClient.connect();
  expect((await limiter1.consume("api:user:1", 1)).allowed).toBe(true);
  expect((await limiter2.consume("report:user:1", 5)).allowed).toBe(true);
  return redisClient;
}
