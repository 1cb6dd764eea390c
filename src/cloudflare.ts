/** The front door of `sluice/cloudflare`: Durable Objects, Workers KV and the rate-limit binding. */
import { DurableObject } from "cloudflare:workers";
import {
  type RateLimiterDOClass,
  type RateLimiterObject,
  rateLimiterObject,
} from "./stores/cloudflare/rate-limiter-do.ts";

export * from "./cloudflare-node.ts";

/** The Durable Object that holds buckets: export it from your Worker. Its class needs SQLite. */
export const RateLimiterDO: RateLimiterDOClass = /* @__PURE__ */ rateLimiterObject(DurableObject);
export type RateLimiterDO = RateLimiterObject;
