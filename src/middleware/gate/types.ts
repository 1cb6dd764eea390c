/** The types of `rateLimit` that every middleware exports. */
export type {
  DecidedRequest,
  LimitedRequest,
  LimiterLike,
  RateLimitOptions,
  RequestLimit,
  RequestOutcome,
} from "./options.ts";
export type { HandlerArgs } from "./request-reader.ts";
