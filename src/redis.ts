/** The front door of `sluice/redis`: ioredis, iovalkey and node-redis, with their Cluster and Sentinel. */
export { type RedisRateLimiterOptions, redisRateLimiter } from "./limiter/redis-rate-limiter.ts";
export type { IoredisLike, NodeRedisLike, RedisClient } from "./stores/redis/redis-client.ts";
export { type RedisStore, type RedisStoreOptions, redisStore } from "./stores/redis/redis-store.ts";
