/** `sluice/node`: for `node:http` and HTTP/2 servers. */

export type { Decided, Limited, LimiterLike, Outcome, RateLimitOptions } from "../middleware/gate/options.ts";
export { type NodeCall, type NodeHandler, type NodeRateLimitOptions, rateLimit } from "../middleware/node.ts";
