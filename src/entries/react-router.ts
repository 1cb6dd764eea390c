/** `sluice/react-router`: for React Router 7 and 8. */
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
export {
  getIdempotency,
  getRateLimit,
  idempotent,
  type ReactRouterArgs,
  type ReactRouterIdempotencyOptions,
  type ReactRouterRateLimitOptions,
  rateLimit,
} from "../middleware/react-router.ts";
