/** `sluice/react-router`: for React Router 7 and 8. */
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
export {
  getRateLimit,
  type ReactRouterArgs,
  type ReactRouterRateLimitOptions,
  rateLimit,
} from "../middleware/react-router.ts";
