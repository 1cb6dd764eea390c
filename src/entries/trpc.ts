/** `sluice/trpc`: for tRPC 11. */

export type * from "../middleware/gate/types.ts";
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
