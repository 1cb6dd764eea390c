/** What Workers of the documentation find in their environment. */
declare module "cloudflare:workers" {
  export const env: Env;
  export function waitUntil(promise: Promise<unknown>): void;
}

interface Env {
  RATE_LIMITER: import("sluice/cloudflare").DurableObjectNamespaceLike;
  KV: import("sluice/cloudflare").KVNamespaceLike;
  RL: import("sluice/cloudflare").RateLimitBinding;
}
