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
export type { RequestIdempotency } from "../middleware/idempotency/current.ts";
export type { IdempotencyOptions } from "../middleware/idempotency/options.ts";
export {
  getIdempotency,
  getRateLimit,
  idempotent,
  type NodeArgs,
  type NodeHandler,
  type NodeIdempotencyOptions,
  type NodeRateLimitOptions,
  rateLimit,
} from "../middleware/node.ts";
export { toNodeHandler } from "../middleware/to-node-handler.ts";
