/** `sluice/koa`: for Koa 2 and 3. */
export {
  getIdempotency,
  getRateLimit,
  idempotent,
  type KoaArgs,
  type KoaIdempotencyOptions,
  type KoaRateLimitOptions,
  rateLimit,
} from "../middleware/koa.ts";
export type * from "../middleware/types.ts";
