/** The front door of `sluice/fastify`: Fastify 5. */
export { type FastifyCall, type FastifyRateLimitOptions, rateLimit } from "./middleware/fastify.ts";
export type { Decided, Limited, LimiterLike, Outcome, RateLimitOptions } from "./middleware/options.ts";
