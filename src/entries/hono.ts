/** `sluice/hono`: for Hono 4. */

export type { Decided, Limited, LimiterLike, Outcome, RateLimitOptions } from "../middleware/gate/options.ts";
export { type HonoCall, type HonoRateLimitOptions, rateLimit } from "../middleware/hono.ts";
export type { OwnAnswer } from "../middleware/hosts/fetch.ts";
