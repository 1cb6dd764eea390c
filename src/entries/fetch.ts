/** `sluice/fetch`: for handlers from `Request` to `Response`: Workers, Bun, Deno, route handlers. */
export {
  type FetchArgs,
  type FetchIdempotencyOptions,
  type FetchRateLimitOptions,
  getIdempotency,
  getRateLimit,
  idempotent,
  rateLimit,
} from "../middleware/fetch.ts";
export type { CustomResponse } from "../middleware/hosts/fetch.ts";
export type * from "../middleware/types.ts";
