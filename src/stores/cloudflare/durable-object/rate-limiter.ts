/** The shortest way to a limiter on Durable Objects: a namespace, a policy. */
import type { Policy } from "../../../core/policy.ts";
import type { PolicyText } from "../../../core/policy-text.ts";
import type { RateLimiter } from "../../../core/rate-limiter.ts";
import { limiterForClient, type StoreKind } from "../../../limiter/limiter-for-client.ts";
import type { FailureOptions } from "../../../resilience/failure-policy.ts";
import type { DurableObjectNamespaceLike } from "../platform.ts";
import {
  DURABLE_OBJECT_OPTIONS,
  type DurableObjectStoreOptions,
  durableObjectStore,
} from "./caller/durable-object-store.ts";

/** What a limiter on Durable Objects can be told. */
export interface DurableObjectRateLimiterOptions extends DurableObjectStoreOptions, FailureOptions {}

/** A limiter for one policy in the objects of a namespace. Limiters on one namespace share one store. */
export function durableObjectRateLimiter(
  namespace: DurableObjectNamespaceLike,
  policy: Policy | PolicyText,
  options: DurableObjectRateLimiterOptions = {},
): RateLimiter {
  return limiterForClient(objects, namespace, policy, options);
}

const objects: StoreKind<DurableObjectNamespaceLike, DurableObjectStoreOptions> = {
  where: "durableObjectRateLimiter",
  options: DURABLE_OBJECT_OPTIONS,
  make: durableObjectStore,
  same: (name, value) => (name === "shards" ? (value ?? 128) : value),
};
