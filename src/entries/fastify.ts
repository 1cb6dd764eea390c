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
export type * from "../middleware/types.ts";
