/** `sluice/express`: for Express 4 and 5. */
export {
  type ExpressArgs,
  type ExpressIdempotencyOptions,
  type ExpressMiddleware,
  type ExpressRateLimitOptions,
  getIdempotency,
  getRateLimit,
  idempotent,
  rateLimit,
} from "../middleware/express.ts";
export type {
  DecidedRequest,
  LimitedRequest,
  LimiterLike,
  RateLimitOptions,
  RequestLimit,
  RequestOutcome,
} from "../middleware/gate/options.ts";
export type { HandlerArgs } from "../middleware/gate/request-reader.ts";
export type { RequestIdempotency } from "../middleware/idempotency/current.ts";
export type { IdempotencyOptions } from "../middleware/idempotency/options.ts";
