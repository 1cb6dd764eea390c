/** The front door of `sluice/fetch`: whatever turns a `Request` into a `Response`. */
export { type FetchCall, type FetchRateLimitOptions, rateLimit } from "./middleware/fetch.ts";
export type { OwnAnswer } from "./middleware/fetch-server.ts";
export type { Decided, Limited, LimiterLike, Outcome, RateLimitOptions } from "./middleware/options.ts";
