/** `sluice/express`: for Express 4 and 5. */
export {
  type ExpressArgs,
  type ExpressMiddleware,
  type ExpressRateLimitOptions,
  getRateLimit,
  rateLimit,
} from "../middleware/express.ts";
export type {
  DecidedRequest,
  LimitedRequest,
  LimiterLike,
  RateLimitOptions,
  RequestLimit,
  RequestOutcome,
} from "../middleware/gate/options.ts";
export type { HandlerArgs } from "../middleware/gate/request-reader.ts";
