/** `sluice/upstash`: stores and limiters in Upstash Redis, over REST by @upstash/redis. */
export type { RedisRateLimiterOptions } from "../stores/redis/rate-limiter.ts";
export type { RedisStore, RedisStoreOptions } from "../stores/redis/redis-store.ts";
export { upstashRateLimiter } from "../stores/upstash/rate-limiter.ts";
export { type UpstashClient, upstashStore } from "../stores/upstash/upstash-store.ts";
