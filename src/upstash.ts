/** The front door of `sluice/upstash`: Redis over REST, with @upstash/redis. */
export type { RedisRateLimiterOptions } from "./limiter/redis-rate-limiter.ts";
export { upstashRateLimiter } from "./limiter/upstash-rate-limiter.ts";
export type { RedisStore, RedisStoreOptions } from "./stores/redis/redis-store.ts";
export { type UpstashClient, upstashStore } from "./stores/upstash/upstash-store.ts";
