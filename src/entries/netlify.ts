/** `sluice/netlify`: for Netlify edge functions. */
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
  type NetlifyArgs,
  type NetlifyEdgeFunction,
  type NetlifyIdempotencyOptions,
  type NetlifyRateLimitOptions,
  rateLimit,
} from "../middleware/netlify.ts";
