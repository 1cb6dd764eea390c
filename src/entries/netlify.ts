/** `sluice/netlify`: for Netlify edge functions. */
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
  type NetlifyArgs,
  type NetlifyEdgeFunction,
  type NetlifyRateLimitOptions,
  rateLimit,
} from "../middleware/netlify.ts";
