/**
 * The front door of `sluice/cloudflare` outside of Cloudflare's runtime: for Node, where bindings are reached through
 * a proxy of wrangler, and for tools that load a Worker to look at it.
 */
export { bindingRateLimiter } from "./limiter/binding-rate-limiter.ts";
export {
  type DurableObjectRateLimiterOptions,
  durableObjectRateLimiter,
} from "./limiter/durable-object-rate-limiter.ts";
export { hybridRateLimiter } from "./limiter/hybrid-rate-limiter.ts";
export { type KVRateLimiterOptions, kvRateLimiter } from "./limiter/kv-rate-limiter.ts";
export {
  type DurableObjectStore,
  type DurableObjectStoreOptions,
  durableObjectStore,
} from "./stores/cloudflare/durable-object-store.ts";
export { type KVStore, type KVStoreOptions, kvStore } from "./stores/cloudflare/kv-store.ts";
export { RateLimiterDO } from "./stores/cloudflare/outside-workers.ts";
export type {
  DurableObjectNamespaceLike,
  DurableObjectStateLike,
  KVNamespaceLike,
  RateLimitBinding,
  WaitUntil,
} from "./stores/cloudflare/platform.ts";
export type { RateLimiterDOClass } from "./stores/cloudflare/rate-limiter-do.ts";
