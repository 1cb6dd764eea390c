/** `sluice/hono`: for Hono 4. */
export type {
  DecidedRequest,
  LimitedRequest,
  LimiterLike,
  RateLimitOptions,
  RequestLimit,
  RequestOutcome,
} from "../middleware/gate/options.ts";
export type { HandlerArgs } from "../middleware/gate/request-reader.ts";
export {
  getIdempotency,
  getRateLimit,
  type HonoArgs,
  type HonoIdempotencyOptions,
  type HonoRateLimitOptions,
  idempotent,
  type RateLimitVariables,
  rateLimit,
} from "../middleware/hono.ts";
export type { CustomResponse } from "../middleware/hosts/fetch.ts";
export type { RequestIdempotency } from "../middleware/idempotency/current.ts";
export type { IdempotencyOptions } from "../middleware/idempotency/options.ts";
