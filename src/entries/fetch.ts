/** `sluice/fetch`: for handlers from `Request` to `Response`: Workers, Bun, Deno, route handlers. */
export {
  type FetchArgs,
  type FetchIdempotencyOptions,
  type FetchRateLimitOptions,
  getIdempotency,
  getRateLimit,
  idempotent,
  rateLimit,
} from "../middleware/fetch.ts";
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
export type { RequestIdempotency } from "../middleware/idempotency/current.ts";
export type { IdempotencyOptions } from "../middleware/idempotency/options.ts";
