/** The shortest way to a limiter on Upstash: a client, a policy. */
import type { Policy } from "../../core/policy.ts";
import type { PolicyText } from "../../core/policy-text.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import { limiterForClient, type StoreKind } from "../../limiter/limiter-for-client.ts";
import { type RedisRateLimiterOptions, sameTime } from "../redis/rate-limiter.ts";
import { REDIS_OPTIONS, type RedisStoreOptions } from "../redis/redis-store.ts";
import { type UpstashClient, upstashStore } from "./upstash-store.ts";

/** A limiter for one policy on Upstash. Limiters on one client share one store, so that `combine` is one step. */
export function upstashRateLimiter(
  redis: UpstashClient,
  policy: Policy | PolicyText,
  options: RedisRateLimiterOptions = {},
): RateLimiter {
  return limiterForClient(upstash, redis, policy, options);
}

const upstash: StoreKind<UpstashClient, RedisStoreOptions> = {
  where: "upstashRateLimiter",
  options: REDIS_OPTIONS,
  make: upstashStore,
  same: sameTime,
};
