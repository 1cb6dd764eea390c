/** `redisRateLimiter`: a limiter from a Redis client and a policy. */

import { parseDuration } from "../../base/rate.ts";
import type { Policy } from "../../core/policy.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import type { PolicyText } from "../../policy/text-type.ts";
import type { FailureOptions } from "../../remote/failure-options.ts";
import { limiterForClient, type StoreKind } from "../../remote/limiter-for-client.ts";
import type { RedisClient } from "./redis-client.ts";
import { REDIS_OPTIONS, type RedisStoreOptions, redisStore } from "./redis-store.ts";

/** Options of `redisRateLimiter` and `upstashRateLimiter`. */
export interface RedisRateLimiterOptions extends RedisStoreOptions, FailureOptions {}

/**
 * Creates a limiter in Redis. Limiters with the same client and store options share a store, so `combine` is one
 * atomic step. Functions are compared by identity: pass the same `secretKeys` to all of them.
 */
export function redisRateLimiter(
  client: RedisClient,
  policy: Policy | PolicyText,
  options: RedisRateLimiterOptions = {},
): RateLimiter {
  return limiterForClient(redis, client, policy, options);
}

const redis: StoreKind<RedisClient, RedisStoreOptions> = {
  where: "redisRateLimiter",
  options: REDIS_OPTIONS,
  create: redisStore,
  normalize: comparableOption,
};

/** Returns what an option is compared by: `ttlMs` as a number, because `"1s"` equals 1000. */
export function comparableOption(name: string, value: unknown): unknown {
  return name === "ttlMs" ? parseDuration("ttlMs", value ?? 0) : value;
}
