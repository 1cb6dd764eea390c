/** The shortest way to a limiter on Upstash: a client, a policy. */
import type { Policy } from "../core/policy.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import { type UpstashClient, upstashStore } from "../stores/upstash/upstash-store.ts";
import { limiterOn, type RedisRateLimiterOptions } from "./redis-rate-limiter.ts";

/** A limiter for one policy on Upstash. Limiters on one client share one store, so that `combine` is one step. */
export function upstashRateLimiter(
  redis: UpstashClient,
  policy: Policy,
  options: RedisRateLimiterOptions = {},
): RateLimiter {
  return limiterOn("upstashRateLimiter", redis, upstashStore, policy, options);
}
