/** `sluice/cloudflare`: limiters on Durable Objects, Workers KV and the rate limit binding. */

export { RateLimiterDO } from "../stores/cloudflare/durable-object/object/in-workers.ts";
export * from "./cloudflare-node.ts";
