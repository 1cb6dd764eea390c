/** `sluice/h3`: for h3 2 and Nitro 3. */
export {
  getIdempotency,
  getRateLimit,
  type H3Args,
  type H3IdempotencyOptions,
  type H3RateLimitOptions,
  idempotent,
  rateLimit,
} from "../middleware/h3.ts";
export type { CustomResponse } from "../middleware/hosts/fetch.ts";
export type * from "../middleware/types.ts";
