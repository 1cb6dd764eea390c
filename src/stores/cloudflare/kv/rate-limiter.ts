/** `kvRateLimiter`: a limiter from a Workers KV namespace and a policy. */
import type { Policy } from "../../../core/policy.ts";
import type { RateLimiter } from "../../../core/rate-limiter.ts";
import type { PolicyText } from "../../../policy/text-type.ts";
import type { FailureOptions } from "../../../remote/failure-options.ts";
import { limiterForClient, type StoreKind } from "../../../remote/limiter-for-client.ts";
import type { KVNamespaceLike } from "../platform.ts";
import { KV_OPTIONS, type KVStoreOptions, kvStore } from "./kv-store.ts";

/** Options of `kvRateLimiter`. */
export interface KVRateLimiterOptions extends KVStoreOptions, FailureOptions {}

/** Creates a limiter in Workers KV. Its decisions are `approximate`. Token and leaky buckets are not supported. */
export function kvRateLimiter(
  kv: KVNamespaceLike,
  policy: Policy | PolicyText,
  options: KVRateLimiterOptions = {},
): RateLimiter {
  return limiterForClient(kvNamespaces, kv, policy, options);
}

const kvNamespaces: StoreKind<KVNamespaceLike, KVStoreOptions> = {
  where: "kvRateLimiter",
  options: KV_OPTIONS,
  perCall: ["waitUntil"],
  create: kvStore,
};
