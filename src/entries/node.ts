/** `sluice/node`: for `node:http` and HTTP/2 servers. */
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
export type * from "../middleware/types.ts";
