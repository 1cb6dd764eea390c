/** `sluice/fastify`: for Fastify 5. */
export {
  type FastifyArgs,
  type FastifyRateLimitHook,
  type FastifyRateLimitOptions,
  type FastifyRateLimitPluginOptions,
  getRateLimit,
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
