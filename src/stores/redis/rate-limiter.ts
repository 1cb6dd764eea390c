/** The shortest way to a limiter on Redis: a client, a policy. */
import type { Policy } from "../../core/policy.ts";
import type { PolicyText } from "../../core/policy-text.ts";
import { parseDuration } from "../../core/rate.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import { limiterForClient, type StoreKind } from "../../limiter/limiter-for-client.ts";
import type { FailureOptions } from "../../resilience/failure-policy.ts";
import type { RedisClient } from "./redis-client.ts";
import { REDIS_OPTIONS, type RedisStoreOptions, redisStore } from "./redis-store.ts";

/** What a limiter on Redis can be told. */
export interface RedisRateLimiterOptions extends RedisStoreOptions, FailureOptions {}

/**
 * A limiter for one policy in Redis. Limiters on one client with the same options of a store share one, so that
 * `combine` is one step; give them the same function as `secretKeys`.
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
  make: redisStore,
  same: sameTime,
};

/** `"1s"` and 1000 are the same time to live. */
export function sameTime(name: string, value: unknown): unknown {
  return name === "ttlMs" ? parseDuration("ttlMs", value ?? 0) : value;
}
