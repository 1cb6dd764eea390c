/** The shortest way to a limiter on Redis: a client, a policy. */
import { checkOptions } from "../core/options.ts";
import type { Policy } from "../core/policy.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import type { RedisClient } from "../stores/redis/redis-client.ts";
import { REDIS_OPTIONS, type RedisStore, type RedisStoreOptions, redisStore } from "../stores/redis/redis-store.ts";
import { createLimiter } from "./create-limiter.ts";
import { FAILURE_OPTIONS, type FailureOptions } from "./on-store-error.ts";

/** What a limiter on Redis can be told. */
export interface RedisRateLimiterOptions extends RedisStoreOptions, FailureOptions {}

/** A limiter for one policy in Redis. Limiters on one client share one store, so that `combine` is one step. */
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
  const { ttlMs, secretKeys, hmacSecret, ...failure } = options;
  const own: RedisStoreOptions = {
    ...(ttlMs === undefined ? {} : { ttlMs }),
    ...(secretKeys === undefined ? {} : { secretKeys }),
    ...(hmacSecret === undefined ? {} : { hmacSecret }),
  };
  if (Object.keys(own).length > 0) return createLimiter({ policy, store: makeStore(client, own), ...failure });
  let store = stores.get(client);
  if (!store) {
    store = makeStore(client, {});
    stores.set(client, store);
  }
  return createLimiter({ policy, store, ...failure });
}

/** The store of every client without options of its own. */
const stores = new WeakMap<object, RedisStore>();
