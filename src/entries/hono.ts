/** `sluice/hono`: for Hono 4. */
export type {
  DecidedRequest,
  LimitedRequest,
  LimiterLike,
  RateLimitOptions,
  RequestOutcome,
} from "../middleware/gate/options.ts";
export type { HandlerArgs } from "../middleware/gate/request-reader.ts";
export {
  type HonoArgs,
  type HonoRateLimitOptions,
  rateLimit,
} from "../middleware/hono.ts";
export type { CustomResponse } from "../middleware/hosts/fetch.ts";
