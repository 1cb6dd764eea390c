/** `sluice/sveltekit`: for SvelteKit 2 and 3. */
export type {
  DecidedRequest,
  LimitedRequest,
  LimiterLike,
  RateLimitOptions,
  RequestLimit,
  RequestOutcome,
} from "../middleware/gate/options.ts";
export type { HandlerArgs } from "../middleware/gate/request-reader.ts";
export type { CustomResponse } from "../middleware/hosts/fetch.ts";
export type { RequestIdempotency } from "../middleware/idempotency/current.ts";
export type { IdempotencyOptions } from "../middleware/idempotency/options.ts";
export {
  getIdempotency,
  getRateLimit,
  idempotent,
  rateLimit,
  type SvelteKitArgs,
  type SvelteKitHandle,
  type SvelteKitIdempotencyOptions,
  type SvelteKitRateLimitOptions,
} from "../middleware/sveltekit.ts";
