/** The class of our objects in Cloudflare's runtime. */
import { DurableObject } from "cloudflare:workers";
import { type RateLimiterDOClass, type RateLimiterObject, rateLimiterObject } from "./rate-limiter-do.ts";

/** The Durable Object that holds buckets: export it from your Worker. Its class needs SQLite. */
export const RateLimiterDO: RateLimiterDOClass = /* @__PURE__ */ rateLimiterObject(DurableObject);
export type RateLimiterDO = RateLimiterObject;
