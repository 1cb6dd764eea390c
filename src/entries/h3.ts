/** `sluice/h3`: for h3 2 and Nitro 3. */
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
  type H3Args,
  type H3IdempotencyOptions,
  type H3RateLimitOptions,
  idempotent,
  rateLimit,
} from "../middleware/h3.ts";
export type { CustomResponse } from "../middleware/hosts/fetch.ts";
export type { RequestIdempotency } from "../middleware/idempotency/current.ts";
export type { IdempotencyOptions } from "../middleware/idempotency/options.ts";
