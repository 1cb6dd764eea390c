/** `sluice/upstash`: stores, limiters and idempotency in Upstash Redis, over REST by @upstash/redis. */
export type { RedisIdempotencyStoreOptions } from "../stores/redis/idempotency/idempotency-store.ts";
export type { RedisRateLimiterOptions } from "../stores/redis/rate-limiter.ts";
export type { RedisStore, RedisStoreOptions } from "../stores/redis/redis-store.ts";
export { upstashIdempotencyStore } from "../stores/upstash/idempotency-store.ts";
export { upstashRateLimiter } from "../stores/upstash/rate-limiter.ts";
export { type UpstashClient, upstashStore } from "../stores/upstash/upstash-store.ts";
