/** `sluice/cloudflare`: limiters on Durable Objects, Workers KV and the rate limit binding, and idempotency on Durable Objects. */

export { RateLimiterDO } from "../stores/cloudflare/durable-object/object/in-workers.ts";
export { IdempotencyDO } from "../stores/cloudflare/idempotency/in-workers.ts";
export * from "./cloudflare-node.ts";
