/** `sluice/express`: for Express 4 and 5. */
export {
  type ExpressArgs,
  type ExpressIdempotencyOptions,
  type ExpressMiddleware,
  type ExpressRateLimitOptions,
  getIdempotency,
  getRateLimit,
  idempotent,
  rateLimit,
} from "../middleware/express.ts";
export type * from "../middleware/types.ts";
