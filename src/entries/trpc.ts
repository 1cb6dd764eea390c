/** `sluice/trpc`: for tRPC 11. */
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
  type RateLimitContext,
  RateLimitError,
  type RateLimitErrorData,
  rateLimit,
  rateLimitErrorFormatter,
  type TrpcArgs,
  type TrpcCall,
  type TrpcMiddleware,
  type TrpcRateLimitOptions,
} from "../middleware/trpc.ts";
