/** `sluice/fastify`: for Fastify 5. */
export { type FastifyCall, type FastifyRateLimitOptions, rateLimit } from "../middleware/fastify.ts";
export type { Decided, Limited, LimiterLike, Outcome, RateLimitOptions } from "../middleware/gate/options.ts";
