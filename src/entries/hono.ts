/** `sluice/hono`: for Hono 4. */
export type {
  DecidedRequest,
  LimitedRequest,
  LimiterLike,
  RateLimitOptions,
  RequestLimit,
  RequestOutcome,
} from "../middleware/gate/options.ts";
export type { HandlerArgs } from "../middleware/gate/request-reader.ts";
export {
  getRateLimit,
  type HonoArgs,
  type HonoRateLimitOptions,
  type RateLimitVariables,
  rateLimit,
} from "../middleware/hono.ts";
export type { CustomResponse } from "../middleware/hosts/fetch.ts";
