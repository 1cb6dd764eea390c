/** `sluice/koa`: for Koa 2 and 3. */
export type {
  DecidedRequest,
  LimitedRequest,
  LimiterLike,
  RateLimitOptions,
  RequestLimit,
  RequestOutcome,
} from "../middleware/gate/options.ts";
export type { HandlerArgs } from "../middleware/gate/request-reader.ts";
export { getRateLimit, type KoaArgs, type KoaRateLimitOptions, rateLimit } from "../middleware/koa.ts";
