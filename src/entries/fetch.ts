/** `sluice/fetch`: for anything that turns a `Request` into a `Response`: Workers, Bun, Deno, route handlers. */
export { type FetchCall, type FetchRateLimitOptions, rateLimit } from "../middleware/fetch.ts";
export type { Decided, Limited, LimiterLike, Outcome, RateLimitOptions } from "../middleware/gate/options.ts";
export type { OwnAnswer } from "../middleware/hosts/fetch.ts";
