/** `sluice/next`: for Next.js: `proxy.ts`, `middleware.ts`, route handlers and Server Actions. */
export type { CustomResponse } from "../middleware/hosts/fetch.ts";
export {
  type ActionArgs,
  type ActionOptions,
  getIdempotency,
  getRateLimit,
  idempotent,
  limitAction,
  limitRoute,
  type NextArgs,
  type NextIdempotencyOptions,
  type NextProxy,
  type NextRateLimitOptions,
  rateLimit,
} from "../middleware/next.ts";
export type * from "../middleware/types.ts";
