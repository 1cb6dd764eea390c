/** The class of our objects where there is no Cloudflare, so that a Worker can be imported there. */
import { type RateLimiterDOClass, type RateLimiterObject, rateLimiterObject } from "./rate-limiter-do.ts";

/** The Durable Object that holds buckets. Outside of Cloudflare's runtime nobody makes an object of it. */
export const RateLimiterDO: RateLimiterDOClass = /* @__PURE__ */ rateLimiterObject(Object);
export type RateLimiterDO = RateLimiterObject;
