/** `sluice/fastify`: for Fastify 5. */
export {
  type FastifyArgs,
  type FastifyIdempotencyOptions,
  type FastifyRateLimitHook,
  type FastifyRateLimitOptions,
  type FastifyRateLimitPluginOptions,
  getIdempotency,
  getRateLimit,
  idempotent,
  rateLimit,
  rateLimitPlugin,
} from "../middleware/fastify.ts";
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
