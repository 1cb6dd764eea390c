/** ws-kit's own types in the positions of ours, and ours in those of ws-kit. Nothing here runs; tsc reads it. */
import { createBunHandler } from "@ws-kit/bun";
import type { ConnectionData, Middleware, MinimalContext } from "@ws-kit/core";
import { memoryRateLimiter as theirMemory } from "@ws-kit/memory";
import {
  type RateLimitDecision,
  type RateLimiter,
  type RateLimitPolicy,
  keyPerUser as theirKeyPerUser,
  keyPerUserPerType as theirKeyPerUserPerType,
  rateLimit as theirs,
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
import { rateLimit, type WsKitLimiter } from "sluice/ws-kit";

declare const store: Store;
declare const redis: RedisClient;
declare const upstash: UpstashClient;
declare const objects: DurableObjectNamespaceLike;
declare const kv: KVNamespaceLike;
declare const binding: RateLimitBinding;

const bucket = tokenBucket("5/s", { burst: 10 });
const first = bindingRateLimiter(binding, fixedWindow("100/60s"));
const exact = durableObjectRateLimiter(objects, bucket);

/** Every limiter of sluice is one of ws-kit, as it is. */
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

/** What they return, and their policy, are what ws-kit reads; none is a limiter by a lucky `any`. */
export const decision = (one: Decision): RateLimitDecision => one;
export const policy = (one: ResolvedPolicy): RateLimitPolicy => one;
export const limiter = (one: SluiceLimiter): RateLimiter & Required<Pick<RateLimiter, "dispose">> => one;

/** Ours, theirs, and any other of ws-kit decide for our middleware. */
export const accepted: readonly WsKitLimiter[] = [
  memoryRateLimiter(bucket),
  redisRateLimiter(redis, bucket),
  theirMemory({ capacity: 3, tokensPerSecond: 2 }),
  ...limiters,
];

interface AppData extends ConnectionData {
  userId?: string;
  tenantId?: string;
  plan: "free" | "paid";
}

/** Our middleware is one of ws-kit, for any data. */
export const middleware: Middleware = rateLimit({ limiter: memoryRateLimiter(bucket) });
export const typed: Middleware<AppData> = rateLimit({ limiter: theirMemory({ capacity: 3, tokensPerSecond: 2 }) });
export const named: Middleware<AppData> = rateLimit<MinimalContext<AppData>>({
  limiter: redisRateLimiter(redis, bucket),
  key: (context) => `${context.data.plan}:${context.data.userId ?? context.clientId}`,
  cost: ({ data, type }) => (data.plan === "paid" && type !== "SEARCH" ? 0 : 1),
  onLimitExceeded: ({ retryAfterMs, key }) => [retryAfterMs?.toFixed(), key.length],
});

const Ping = message("PING", { text: z.string() });

/** It goes where middleware goes: before validation, after it, and on one route. */
export const router = createRouter()
  .use(rateLimit({ limiter: memoryRateLimiter(bucket) }))
  .plugin(withZod())
  .use(rateLimit({ limiter: memoryRateLimiter(bucket), key: perUserKey, cost: () => 2 }))
  .on(Ping, (context) => void context.payload.text.length);
router
  .route(Ping)
  .use(rateLimit({ limiter: memoryRateLimiter(bucket) }))
  .on((context) => void context.payload);

/** Where the router has data of its own, keys and costs see it without being told its type. */
export const typedRouter = createRouter<AppData>()
  .use(
    rateLimit({
      limiter: theirMemory({ capacity: 3, tokensPerSecond: 2 }),
      key: ({ data, clientId, type }) => `${data.plan}:${data.userId ?? clientId}:${type}`,
      cost: ({ data }) => (data.plan === "paid" ? 1 : 10),
    }),
  )
  .use(rateLimit<MinimalContext<AppData>>({ limiter: exact, key: ({ data }) => data.plan }))
  .use(rateLimit({ limiter: exact, key: theirKeyPerUser }))
  .use(typed)
  .use(named)
  .plugin(withZod());

/** Our keys are keys of ws-kit's own middleware, and its keys of ours. */
for (const key of [keyPerUserPerType, keyPerUserOrIpPerType, perUserKey, keyPerUser]) {
  createRouter().use(theirs({ limiter: memoryRateLimiter(bucket), key }));
  createRouter<AppData>().use(theirs<AppData>({ limiter: redisRateLimiter(redis, bucket), key, cost: () => 1 }));
  createRouter<AppData>().use(rateLimit({ limiter: exact, key }));
}
createRouter().use(rateLimit({ limiter: exact, key: theirKeyPerUserPerType }));

/** A guard around the handlers, where frames are seen that the router shows to no middleware. */
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
// @ts-expect-error a limiter that does not know its policy
rateLimit({ limiter: { consume: async () => ({ allowed: true }) } });
// @ts-expect-error a store is not a limiter
rateLimit({ limiter: memoryStore() });
// @ts-expect-error a cost is a number
rateLimit({ limiter: exact, cost: () => "1" });
// @ts-expect-error and known at once
rateLimit({ limiter: exact, cost: async () => 1 });
// @ts-expect-error a key is a string
rateLimit({ limiter: exact, key: ({ data }) => data });
// @ts-expect-error contexts have no address
rateLimit({ limiter: exact, key: (context) => context.ip });
// @ts-expect-error no such option
rateLimit({ limiter: exact, onExceeded: "close" });
// @ts-expect-error the data of this router has no such member that is a string
createRouter<AppData>().use(rateLimit({ limiter: exact, key: ({ data }) => data.account }));
// @ts-expect-error what needs more of its context than the router has
createRouter().use(rateLimit<MinimalContext<AppData>>({ limiter: exact }));
// @ts-expect-error nor is a limiter that ws-kit can't await one of ws-kit
export const sync: RateLimiter = { consume: memoryRateLimiter(bucket).consumeSync, getPolicy: exact.getPolicy };
