/** `sluice/hono`: for Hono 4. */
export {
  getIdempotency,
  getRateLimit,
  type HonoArgs,
  type HonoIdempotencyOptions,
  type HonoRateLimitOptions,
  idempotent,
  type RateLimitVariables,
  rateLimit,
} from "../middleware/hono.ts";
export type { CustomResponse } from "../middleware/hosts/fetch.ts";
export type * from "../middleware/types.ts";
