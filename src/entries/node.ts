/** `sluice/node`: for `node:http` and HTTP/2 servers. */
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
  type NodeArgs,
  type NodeHandler,
  type NodeRateLimitOptions,
  rateLimit,
} from "../middleware/node.ts";
