/** The `RateLimiterDO` class outside Cloudflare's runtime, for tools and tests that import a Worker. */
import { type RateLimiterDOClass, type RateLimiterObject, rateLimiterObject } from "./rate-limiter-do.ts";

/** The Durable Object class that holds buckets. Only Cloudflare's runtime creates instances of it. */
export const RateLimiterDO: RateLimiterDOClass = /* @__PURE__ */ rateLimiterObject(Object);
export type RateLimiterDO = RateLimiterObject;
