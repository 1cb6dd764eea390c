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
export {
  getRateLimit,
  rateLimit,
  type SvelteKitArgs,
  type SvelteKitHandle,
  type SvelteKitRateLimitOptions,
} from "../middleware/sveltekit.ts";
