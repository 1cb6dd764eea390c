/** `sluice/next`: for Next.js: `proxy.ts`, `middleware.ts`, route handlers and Server Actions. */
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
  type ActionArgs,
  type ActionOptions,
  getIdempotency,
  getRateLimit,
  idempotent,
  limitAction,
  limitRoute,
  type NextArgs,
  type NextIdempotencyOptions,
  type NextProxy,
  type NextRateLimitOptions,
  rateLimit,
} from "../middleware/next.ts";
