/** `sluice/redis`: stores, limiters and idempotency in Redis or Valkey (single server, Cluster or Sentinel) by ioredis, iovalkey or node-redis. */
export {
  type RedisIdempotencyStoreOptions,
  redisIdempotencyStore,
} from "../stores/redis/idempotency/idempotency-store.ts";
export { type RedisRateLimiterOptions, redisRateLimiter } from "../stores/redis/rate-limiter.ts";
export type { IoredisLike, NodeRedisLike, RedisClient } from "../stores/redis/redis-client.ts";
export { type RedisStore, type RedisStoreOptions, redisStore } from "../stores/redis/redis-store.ts";
