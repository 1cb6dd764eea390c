/** `sluice/fetch`: for handlers from `Request` to `Response`: Workers, Bun, Deno, route handlers. */
export { type FetchArgs, type FetchRateLimitOptions, getRateLimit, rateLimit } from "../middleware/fetch.ts";
export type {
  DecidedRequest,
  LimitedRequest,
  LimiterLike,
  RateLimitOptions,
  RequestLimit,
  RequestOutcome,
} from "../middleware/gate/options.ts";
export type { HandlerArgs } from "../middleware/gate/request-reader.ts";
export type { CustomResponse } from "../middleware/hosts/fetch.ts";
