/** The types of `rateLimit` and `idempotent` that every middleware with both exports. */
export type * from "./gate/types.ts";
export type { RequestIdempotency } from "./idempotency/current.ts";
export type { IdempotencyOptions } from "./idempotency/options.ts";
