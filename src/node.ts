/** The front door of `sluice/node`: servers of `node:http`. */
export { type NodeCall, type NodeHandler, type NodeRateLimitOptions, rateLimit } from "./middleware/node.ts";
export type { Decided, Limited, LimiterLike, Outcome, RateLimitOptions } from "./middleware/options.ts";
