/** The `RateLimiterDO` class in Cloudflare's runtime. */
import { DurableObject } from "cloudflare:workers";
import { type RateLimiterDOClass, type RateLimiterObject, rateLimiterObject } from "./rate-limiter-do.ts";

/** The Durable Object class that holds buckets. Export it from your Worker and list it under `new_sqlite_classes`. */
export const RateLimiterDO: RateLimiterDOClass = /* @__PURE__ */ rateLimiterObject(DurableObject);
export type RateLimiterDO = RateLimiterObject;
