/** `sluice/express`: for Express 4 and 5. */
export {
  type ExpressCall,
  type ExpressMiddleware,
  type ExpressRateLimitOptions,
  rateLimit,
} from "../middleware/express.ts";
export type { Decided, Limited, LimiterLike, Outcome, RateLimitOptions } from "../middleware/gate/options.ts";
