/**
 * `sluice/cloudflare` outside Cloudflare's runtime: for Node, where wrangler provides bindings through a proxy, and for
 * tools that import a Worker without running it.
 */

export { hybridRateLimiter } from "../remote/hybrid-rate-limiter.ts";
export { bindingRateLimiter } from "../stores/cloudflare/binding/rate-limiter.ts";
export {
  type DurableObjectStore,
  type DurableObjectStoreOptions,
  durableObjectStore,
} from "../stores/cloudflare/durable-object/caller/durable-object-store.ts";
export { RateLimiterDO } from "../stores/cloudflare/durable-object/object/outside-workers.ts";
export type { RateLimiterDOClass } from "../stores/cloudflare/durable-object/object/rate-limiter-do.ts";
export {
  type DurableObjectRateLimiterOptions,
  durableObjectRateLimiter,
} from "../stores/cloudflare/durable-object/rate-limiter.ts";
export type { IdempotencyDOClass } from "../stores/cloudflare/idempotency/idempotency-do.ts";
export {
  type DurableObjectIdempotencyStoreOptions,
  durableObjectIdempotencyStore,
} from "../stores/cloudflare/idempotency/idempotency-store.ts";
export { IdempotencyDO } from "../stores/cloudflare/idempotency/outside-workers.ts";
export { type KVStore, type KVStoreOptions, kvStore } from "../stores/cloudflare/kv/kv-store.ts";
export { type KVRateLimiterOptions, kvRateLimiter } from "../stores/cloudflare/kv/rate-limiter.ts";
export type {
  DurableObjectNamespaceLike,
  DurableObjectStateLike,
  KVNamespaceLike,
  RateLimitBinding,
  WaitUntil,
} from "../stores/cloudflare/platform.ts";
