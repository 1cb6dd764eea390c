/** The front door of `sluice/hono`: Hono 4. */

export type { OwnAnswer } from "./middleware/fetch-server.ts";
export { type HonoCall, type HonoRateLimitOptions, rateLimit } from "./middleware/hono.ts";
export type { Decided, Limited, LimiterLike, Outcome, RateLimitOptions } from "./middleware/options.ts";
