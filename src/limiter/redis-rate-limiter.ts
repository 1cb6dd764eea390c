/** The shortest way to a limiter on Redis: a client, a policy. */
import { checkOptions } from "../core/options.ts";
import type { Policy } from "../core/policy.ts";
import { parseDuration } from "../core/rate.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { RedisClient } from "../stores/redis/redis-client.ts";
import { REDIS_OPTIONS, type RedisStore, type RedisStoreOptions, redisStore } from "../stores/redis/redis-store.ts";
import { createLimiter } from "./create-limiter.ts";
import { FAILURE_OPTIONS, type FailureOptions } from "./on-store-error.ts";

/** What a limiter on Redis can be told. */
export interface RedisRateLimiterOptions extends RedisStoreOptions, FailureOptions {}

/**
 * A limiter for one policy in Redis. Limiters on one client with the same options of a store share one, so that
 * `combine` is one step; give them the same function as `secretKeys`.
 */
export function redisRateLimiter(
  client: RedisClient,
  policy: Policy,
  options: RedisRateLimiterOptions = {},
): RateLimiter {
  return limiterOn("redisRateLimiter", client, redisStore, policy, options);
}

/** The same over any way to make such a store. */
export function limiterOn<Client extends object>(
  where: string,
  client: Client,
  makeStore: (client: Client, options: RedisStoreOptions) => RedisStore,
  policy: Policy,
  options: RedisRateLimiterOptions,
): RateLimiter {
  checkOptions(where, options, [...REDIS_OPTIONS, ...FAILURE_OPTIONS]);
  const own: RedisStoreOptions = {};
  const failure: FailureOptions = {};
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined) Object.assign(REDIS_OPTIONS.includes(name) ? own : failure, { [name]: value });
  }
  const known = (typeof client === "object" && stores.get(client)) || [];
  let made = known.find((one) => sameOptions(one.options, own));
  if (!made) {
    made = { options: own, store: makeStore(client, own) };
    stores.set(client, [...known, made]);
  }
  return createLimiter({ policy, store: made.store, ...failure });
}

/** The stores of every client, one for each set of options. */
const stores = new WeakMap<object, { options: RedisStoreOptions; store: RedisStore }[]>();

function sameOptions(a: RedisStoreOptions, b: RedisStoreOptions): boolean {
  return durationOf(a) === durationOf(b) && a.secretKeys === b.secretKeys && a.hmacSecret === b.hmacSecret;
}

function durationOf({ ttlMs = 0 }: RedisStoreOptions): unknown {
  return parseDuration("ttlMs", ttlMs);
}
