/** `sluice/next`: for Next.js: `proxy.ts`, `middleware.ts`, route handlers and Server Actions. */
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
  type ActionArgs,
  type ActionOptions,
  getRateLimit,
  limitAction,
  limitRoute,
  type NextArgs,
  type NextProxy,
  type NextRateLimitOptions,
  rateLimit,
} from "../middleware/next.ts";
