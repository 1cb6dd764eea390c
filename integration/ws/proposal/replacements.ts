/** What replaces the usage blocks of the ws-kit proposal that do not work as written. One export per block. */
import type { createRouter, Middleware, MinimalContext } from "@ws-kit/core";
import { createClient } from "redis";
import { memoryRateLimiter } from "sluice";
import { clientIp } from "sluice/http";
import { redisRateLimiter } from "sluice/redis";
import { createGuard, type LimitExceeded } from "sluice/ws";
import { keyPerUserPerType, rateLimit } from "sluice/ws-kit";
import type { Router } from "./as-written.ts";

/** Block 2: the clock is an option of the limiter. */
export function clockOfLimiter(router: Router, clock: { now(): number }) {
  const limiter = memoryRateLimiter({ capacity: 3, tokensPerSecond: 1 }, { clock });
  router.use(rateLimit({ limiter, key: (ctx) => `user:${ctx.data.userId}`, cost: () => 1 }));
}

/** Block 11: the prefix is part of the policy; middleware of the application reads `ctx.data`. */
export async function limitersOfTiers(router: Router) {
  const client = createClient({ url: process.env.REDIS_URL as string });
  await client.connect();
  const key = (ctx: MinimalContext) => `user:${ctx.data.userId}`;
  const free = rateLimit({
    limiter: redisRateLimiter(client, { capacity: 2, tokensPerSecond: 0.001, prefix: "free:" }),
    key,
  });
  const premium = rateLimit({
    limiter: redisRateLimiter(client, { capacity: 4, tokensPerSecond: 0.001, prefix: "premium:" }),
    key,
  });
  router.use((ctx, next) => (ctx.data.isPremium ? premium : free)(ctx, next));
  return client;
}

/** Block 12: the middleware reports rates, and a guard around the handlers reports sizes. */
export function hooks(router: Router, report: (line: string) => void) {
  const onLimitExceeded = ({ type, id, observed, limit, retryAfterMs }: LimitExceeded) =>
    report(
      type === "payload" ? `payload ${observed} of ${limit}` : `${type} ${id} ${observed} of ${limit} ${retryAfterMs}`,
    );
  router.use(rateLimit({ limiter: memoryRateLimiter({ capacity: 3, tokensPerSecond: 0.001 }), onLimitExceeded }));
  return createGuard({ maxBytes: 100, onLimitExceeded });
}

/** Block 13: the address is found at the upgrade, and part of the connection's data. */
export function keyOfAddress(router: ReturnType<typeof createRouter<{ ip: string }>>) {
  const limiter = memoryRateLimiter({ capacity: 3, tokensPerSecond: 0.001 });
  router.use(rateLimit({ limiter, key: ({ data, type }) => `${data.ip}:${type}` }));
  // The option `authenticate` of serve and createBunHandler.
  return (request: Request) => {
    const ip = clientIp(request, { header: "cf-connecting-ip", trustedProxies: 1 });
    return ip === undefined ? undefined : { ip };
  };
}

/** Block 18: the key is the default. */
export const limiterOfOnePolicy: () => Middleware = () =>
  rateLimit({ limiter: memoryRateLimiter({ capacity: 3, tokensPerSecond: 0.001 }) });

/** Block 19: the same with a key. */
export const limiterWithKey: () => Middleware = () =>
  rateLimit({ limiter: memoryRateLimiter({ capacity: 3, tokensPerSecond: 0.001 }), key: keyPerUserPerType });

/** Block 20: limiters of one client. */
export async function limitersOfClient(router: Router) {
  const client = createClient({ url: process.env.REDIS_URL as string });
  await client.connect();
  const cheap = redisRateLimiter(client, { capacity: 20, tokensPerSecond: 0.001, prefix: "cheap:" });
  const expensive = redisRateLimiter(client, { capacity: 11, tokensPerSecond: 0.001, prefix: "expensive:" });
  router.use(rateLimit({ limiter: cheap, key: keyPerUserPerType }));
  router.use(rateLimit({ limiter: expensive, key: keyPerUserPerType, cost: () => 5 }));
  return client;
}

/** Block 21: the hook of the middleware. */
export function hookOfMiddleware(router: Router, report: (info: LimitExceeded) => void) {
  const limiter = memoryRateLimiter({ capacity: 3, tokensPerSecond: 0.001 });
  router.use(rateLimit({ limiter, onLimitExceeded: report }));
}
