/** `sluice/react-router`: for React Router 7 and 8. */
export type { CustomResponse } from "../middleware/hosts/fetch.ts";
export {
  getIdempotency,
  getRateLimit,
  idempotent,
  type ReactRouterArgs,
  type ReactRouterIdempotencyOptions,
  type ReactRouterRateLimitOptions,
  rateLimit,
} from "../middleware/react-router.ts";
export type * from "../middleware/types.ts";
