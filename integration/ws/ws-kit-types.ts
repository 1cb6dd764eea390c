/** Type tests: limiters, keys and middleware of sluice and ws-kit are interchangeable. Compiled, not run. */
import { createBunHandler } from "@ws-kit/bun";
import type { ConnectionData, Middleware, MinimalContext } from "@ws-kit/core";
import { memoryRateLimiter as wsKitMemoryLimiter } from "@ws-kit/memory";
import {
  type RateLimitDecision,
  type RateLimiter,
  type RateLimitPolicy,
  keyPerUser as wsKitKeyPerUser,
  keyPerUserPerType as wsKitKeyPerUserPerType,
  rateLimit as wsKitRateLimit,
} from "@ws-kit/rate-limit";
import { createRouter, message, withZod, z } from "@ws-kit/zod";
import {
  combine,
  createLimiter,
  type Decision,
  fixedWindow,
  memoryRateLimiter,
  memoryStore,
  type ResolvedPolicy,
  type RateLimiter as SluiceLimiter,
  type Store,
  slidingLog,
  tokenBucket,
} from "sluice";
import {
  bindingRateLimiter,
  type DurableObjectNamespaceLike,
  durableObjectRateLimiter,
  hybridRateLimiter,
  type KVNamespaceLike,
  kvRateLimiter,
  type RateLimitBinding,
} from "sluice/cloudflare";
import { type RedisClient, redisRateLimiter } from "sluice/redis";
import { type UpstashClient, upstashRateLimiter } from "sluice/upstash";
import { createGuard, keyPerUser, keyPerUserOrIpPerType, keyPerUserPerType, perUserKey } from "sluice/ws";
import { guardBun } from "sluice/ws-bun";
import { type RateLimitDecision as MiddlewareDecision, rateLimit, type WsKitLimiter } from "sluice/ws-kit";

declare const store: Store;
declare const redis: RedisClient;
declare const upstash: UpstashClient;
declare const objects: DurableObjectNamespaceLike;
declare const kv: KVNamespaceLike;
declare const binding: RateLimitBinding;

const bucket = tokenBucket("5/s", { burst: 10 });
const first = bindingRateLimiter(binding, fixedWindow("100/60s"));
const exact = durableObjectRateLimiter(objects, bucket);

/** Every limiter of sluice is a ws-kit limiter. */
export const limiters: readonly RateLimiter[] = [
  memoryRateLimiter(bucket),
  memoryRateLimiter({ capacity: 3, tokensPerSecond: 2, prefix: "chat:" }),
  createLimiter({ policy: bucket }),
  createLimiter({ policy: slidingLog("100/m"), store: memoryStore() }),
  createLimiter({ policy: bucket, store, onStoreError: "closed" }),
  combine([memoryRateLimiter(bucket), createLimiter({ policy: fixedWindow("1000/h"), store })]),
  redisRateLimiter(redis, bucket),
  upstashRateLimiter(upstash, bucket),
  exact,
  kvRateLimiter(kv, slidingLog("100/60s")),
  first,
  hybridRateLimiter(first, exact),
];

/** Decisions and policies are assignable too, which rules out an accidental `any`. */
export const decision = (one: Decision): RateLimitDecision => one;
export const policy = (one: ResolvedPolicy): RateLimitPolicy => one;
export const limiter = (one: SluiceLimiter): RateLimiter & Required<Pick<RateLimiter, "dispose">> => one;

/** A limiter that returns the decisions of the ws-kit proposal is accepted too. */
export const ofProposal: WsKitLimiter = {
  consume: async (): Promise<MiddlewareDecision> => ({ allowed: true, remaining: 1 }),
  getPolicy: () => ({ capacity: 1 }),
};
export const left = (one: MiddlewareDecision): number | undefined => one.remaining;

/** The middleware accepts limiters of sluice and of ws-kit. */
export const accepted: readonly WsKitLimiter[] = [
  memoryRateLimiter(bucket),
  redisRateLimiter(redis, bucket),
  wsKitMemoryLimiter({ capacity: 3, tokensPerSecond: 2 }),
  ...limiters,
];

interface AppData extends ConnectionData {
  userId?: string;
  tenantId?: string;
  plan: "free" | "paid";
}

/** The middleware is a ws-kit middleware, for any data. */
export const middleware: Middleware = rateLimit({ limiter: memoryRateLimiter(bucket) });
export const typed: Middleware<AppData> = rateLimit({
  limiter: wsKitMemoryLimiter({ capacity: 3, tokensPerSecond: 2 }),
});
export const named: Middleware<AppData> = rateLimit<MinimalContext<AppData>>({
  limiter: redisRateLimiter(redis, bucket),
  key: (context) => `${context.data.plan}:${context.data.userId ?? context.clientId}`,
  cost: ({ data, type }) => (data.plan === "paid" && type !== "SEARCH" ? 0 : 1),
  onLimitExceeded: ({ retryAfterMs, key }) => [retryAfterMs?.toFixed(), key.length],
});

const Ping = message("PING", { text: z.string() });

/** It can be used before validation, after it, and on one route. */
export const router = createRouter()
  .use(rateLimit({ limiter: memoryRateLimiter(bucket) }))
  .plugin(withZod())
  .use(rateLimit({ limiter: memoryRateLimiter(bucket), key: perUserKey, cost: () => 2 }))
  .on(Ping, (context) => void context.payload.text.length);
router
  .route(Ping)
  .use(rateLimit({ limiter: memoryRateLimiter(bucket) }))
  .on((context) => void context.payload);

/** Keys and costs infer the data type of the router. */
export const typedRouter = createRouter<AppData>()
  .use(
    rateLimit({
      limiter: wsKitMemoryLimiter({ capacity: 3, tokensPerSecond: 2 }),
      key: ({ data, clientId, type }) => `${data.plan}:${data.userId ?? clientId}:${type}`,
      cost: ({ data }) => (data.plan === "paid" ? 1 : 10),
    }),
  )
  .use(rateLimit<MinimalContext<AppData>>({ limiter: exact, key: ({ data }) => data.plan }))
  .use(rateLimit({ limiter: exact, key: wsKitKeyPerUser }))
  .use(typed)
  .use(named)
  .plugin(withZod());

/** Key functions are interchangeable. */
for (const key of [keyPerUserPerType, keyPerUserOrIpPerType, perUserKey, keyPerUser]) {
  createRouter().use(wsKitRateLimit({ limiter: memoryRateLimiter(bucket), key }));
  createRouter<AppData>().use(
    wsKitRateLimit<AppData>({ limiter: redisRateLimiter(redis, bucket), key, cost: () => 1 }),
  );
  createRouter<AppData>().use(rateLimit({ limiter: exact, key }));
}
createRouter().use(rateLimit({ limiter: exact, key: wsKitKeyPerUserPerType }));

/** A guard around the handlers limits frames that the router passes to no middleware. */
const { fetch, websocket } = createBunHandler(router, { authenticate: () => ({ userId: "u1" }) });
export const served = { fetch, websocket: guardBun().websocket(websocket) };
export const typedServed = guardBun<AppData>({ limits: { limiter: exact, key: ({ data }) => data?.plan ?? "" } });
export const typedHandlers = typedServed.websocket(createBunHandler(typedRouter).websocket);
export function receive(socket: Parameters<typeof router.websocket.open>[0], frame: string): void {
  const { send, close } = socket;
  const peer = { id: "1", send: (text: string | Uint8Array) => send(String(text)), close };
  createGuard()
    .attach(peer)
    .receive(frame, (frame) => router.websocket.message(socket, frame as string));
}

// @ts-expect-error a limiter is needed
rateLimit({});
// @ts-expect-error options are needed
rateLimit();
// @ts-expect-error a limiter needs getPolicy
rateLimit({ limiter: { consume: async () => ({ allowed: true }) } });
// @ts-expect-error a store is not a limiter
rateLimit({ limiter: memoryStore() });
// @ts-expect-error a cost is a number
rateLimit({ limiter: exact, cost: () => "1" });
// @ts-expect-error a cost is synchronous
rateLimit({ limiter: exact, cost: async () => 1 });
// @ts-expect-error a key is a string
rateLimit({ limiter: exact, key: ({ data }) => data });
// @ts-expect-error contexts have no IP address
rateLimit({ limiter: exact, key: (context) => context.ip });
// @ts-expect-error unknown action
rateLimit({ limiter: exact, onExceeded: "stop" });
// @ts-expect-error unknown option
rateLimit({ limiter: exact, onDenied: "close" });
// @ts-expect-error the data of this router has no member account of type string
createRouter<AppData>().use(rateLimit({ limiter: exact, key: ({ data }) => data.account }));
// @ts-expect-error the router has no such data
createRouter().use(rateLimit<MinimalContext<AppData>>({ limiter: exact }));
// @ts-expect-error a ws-kit limiter returns a promise
export const sync: RateLimiter = { consume: memoryRateLimiter(bucket).consumeSync, getPolicy: exact.getPolicy };
