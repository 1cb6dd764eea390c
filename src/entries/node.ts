/** `sluice/node`: for `node:http` and HTTP/2 servers. */
export type {
  DecidedRequest,
  LimitedRequest,
  LimiterLike,
  RateLimitOptions,
  RequestOutcome,
} from "../middleware/gate/options.ts";
export type { HandlerArgs } from "../middleware/gate/request-reader.ts";
export {
  type NodeArgs,
  type NodeHandler,
  type NodeRateLimitOptions,
  rateLimit,
} from "../middleware/node.ts";
