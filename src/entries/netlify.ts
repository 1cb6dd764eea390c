/** `sluice/netlify`: for Netlify edge functions. */
export type { CustomResponse } from "../middleware/hosts/fetch.ts";
export {
  getIdempotency,
  getRateLimit,
  idempotent,
  type NetlifyArgs,
  type NetlifyEdgeFunction,
  type NetlifyIdempotencyOptions,
  type NetlifyRateLimitOptions,
  rateLimit,
} from "../middleware/netlify.ts";
export type * from "../middleware/types.ts";
