/** `sluice/h3`: for h3 2 and Nitro 3. */
export type {
  DecidedRequest,
  LimitedRequest,
  LimiterLike,
  RateLimitOptions,
  RequestLimit,
  RequestOutcome,
} from "../middleware/gate/options.ts";
export type { HandlerArgs } from "../middleware/gate/request-reader.ts";
export { getRateLimit, type H3Args, type H3RateLimitOptions, rateLimit } from "../middleware/h3.ts";
export type { CustomResponse } from "../middleware/hosts/fetch.ts";
