/**
 * The forms of the ws-kit proposal that do not work, each with the error of the compiler. The ones that run throw an error
 * that names the replacement. Code that works instead is in `replacements.ts`.
 */
import { memoryRateLimiter, memoryStore } from "@ws-kit/adapters/memory";
// @ts-expect-error there is no createRedisBackend: redisRateLimiter takes the client and the policy
import { createRedisBackend } from "@ws-kit/adapters/redis";
import type { serve } from "@ws-kit/bun";
import type { MinimalContext } from "@ws-kit/core";
// @ts-expect-error there is no defaultKey: it is the default
import { defaultKey, keyPerUserPerType, rateLimit } from "@ws-kit/middleware";

const limiter = memoryRateLimiter("10/s");
const policy = { capacity: 3, tokensPerSecond: 1 };

/** Block 2: a store with a clock, and a policy beside it. */
export const clockOfStore = () =>
  rateLimit({
    // @ts-expect-error a limiter is needed
    store: memoryStore({ clock: { now: () => 0 } }),
    policy,
    key: (ctx) => `user:${ctx.ws.data?.userId}`,
  });

/** Blocks 12, 18 and 19: a store of one policy. */
export const storeOfPolicy = () =>
  rateLimit({
    // @ts-expect-error a limiter is needed, and a store has no policy
    store: memoryStore({ policy }),
    key: keyPerUserPerType,
  });

/** Names that do not exist. */
export const missing = { createRedisBackend, defaultKey };

/** Block 9 and 13: the IP address of a client, and its request. */
export const byAddress = () => [
  // @ts-expect-error ws-kit has no IP address
  rateLimit({ limiter, key: (ctx) => `rt:${ctx.ip}:${ctx.type}` }),
  // @ts-expect-error ws-kit has no request
  rateLimit({ limiter, key: (ctx) => `rt:${ctx.request.headers.get("CF-Connecting-IP")}` }),
];

/** Block 14: a key per message, which the proposal calls wrong. */
export const keyPerMessage = () => [
  // @ts-expect-error the connection's id is clientId
  rateLimit({ limiter, key: (ctx) => `rt:${Date.now()}:${ctx.id}` }),
];

/** Block 11: middleware of the application reads the socket's data. */
export const isPremium = (ctx: MinimalContext): boolean =>
  // @ts-expect-error ws-kit has it in ctx.data
  ctx.ws.data?.isPremium;

/** Blocks 12 and 21: the hook of the server. It is compiled only. */
export function hookOfServer(start: typeof serve, router: Parameters<typeof serve>[0]) {
  // @ts-expect-error serve of ws-kit has no such hook
  return start(router, { port: 3000, onLimitExceeded: (info) => info.type });
}
