/** `durableObjectRateLimiter`: a limiter from a Durable Object namespace and a policy. */
import type { Policy } from "../../../core/policy.ts";
import type { RateLimiter } from "../../../core/rate-limiter.ts";
import type { PolicyText } from "../../../policy/text-type.ts";
import type { FailureOptions } from "../../../remote/failure-options.ts";
import { limiterForClient, type StoreKind } from "../../../remote/limiter-for-client.ts";
import type { DurableObjectNamespaceLike } from "../platform.ts";
import {
  DEFAULT_SHARDS,
  DURABLE_OBJECT_OPTIONS,
  type DurableObjectStoreOptions,
  durableObjectStore,
} from "./caller/durable-object-store.ts";

/** Options of `durableObjectRateLimiter`. */
export interface DurableObjectRateLimiterOptions extends DurableObjectStoreOptions, FailureOptions {}

/** Creates a limiter in the Durable Objects of a namespace. Limiters with the same namespace and options share a store. */
export function durableObjectRateLimiter(
  namespace: DurableObjectNamespaceLike,
  policy: Policy | PolicyText,
  options: DurableObjectRateLimiterOptions = {},
): RateLimiter {
  return limiterForClient(durableObjects, namespace, policy, options);
}

const durableObjects: StoreKind<DurableObjectNamespaceLike, DurableObjectStoreOptions> = {
  where: "durableObjectRateLimiter",
  options: DURABLE_OBJECT_OPTIONS,
  create: durableObjectStore,
  normalize: (name, value) => (name === "shards" ? (value ?? DEFAULT_SHARDS) : value),
};
