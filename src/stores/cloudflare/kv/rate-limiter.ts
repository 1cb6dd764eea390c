/** The shortest way to a limiter on Workers KV: a namespace, a policy. */
import type { Policy } from "../../../core/policy.ts";
import type { PolicyText } from "../../../core/policy-text.ts";
import type { RateLimiter } from "../../../core/rate-limiter.ts";
import { limiterForClient, type StoreKind } from "../../../limiter/limiter-for-client.ts";
import type { FailureOptions } from "../../../resilience/failure-policy.ts";
import type { KVNamespaceLike } from "../platform.ts";
import { KV_OPTIONS, type KVStoreOptions, kvStore } from "./kv-store.ts";

/** What a limiter on KV can be told. */
export interface KVRateLimiterOptions extends KVStoreOptions, FailureOptions {}

/** A limiter for one policy in a namespace of KV: approximate, and says so. Windows only, not buckets. */
export function kvRateLimiter(
  kv: KVNamespaceLike,
  policy: Policy | PolicyText,
  options: KVRateLimiterOptions = {},
): RateLimiter {
  return limiterForClient(namespaces, kv, policy, options);
}

const namespaces: StoreKind<KVNamespaceLike, KVStoreOptions> = {
  where: "kvRateLimiter",
  options: KV_OPTIONS,
  perCall: ["waitUntil"],
  make: kvStore,
};
