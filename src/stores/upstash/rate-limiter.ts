/** `upstashRateLimiter`: a limiter from an Upstash client and a policy. */
import type { Policy } from "../../core/policy.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import type { PolicyText } from "../../policy/text-type.ts";
import { limiterForClient, type StoreKind } from "../../remote/limiter-for-client.ts";
import { comparableOption, type RedisRateLimiterOptions } from "../redis/rate-limiter.ts";
import { REDIS_OPTIONS, type RedisStoreOptions } from "../redis/redis-store.ts";
import { type UpstashClient, upstashStore } from "./upstash-store.ts";

/** Creates a limiter in Upstash Redis. Limiters with the same client and options share a store: `combine` is atomic. */
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
  create: upstashStore,
  normalize: comparableOption,
};
