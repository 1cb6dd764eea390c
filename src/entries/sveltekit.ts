/** `sluice/sveltekit`: for SvelteKit 2 and 3. */
export type { CustomResponse } from "../middleware/hosts/fetch.ts";
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
export type * from "../middleware/types.ts";
