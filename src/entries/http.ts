/** `sluice/http`: client identity, rate limit headers and 429 responses, as data. */

export { partitionKey } from "../http/headers/partition-key.ts";
export {
  type HeaderFacts,
  type HeaderFields,
  type HeaderMode,
  type HeaderOptions,
  type Policies,
  rateLimitHeaders,
} from "../http/headers/rate-limit-headers.ts";
export type { ApiKeyOptions } from "../http/identity/api-key.ts";
export {
  clientIp,
  type RequestFacts,
  type RequestHeaders,
  type Trust,
  type TrustOptions,
} from "../http/identity/client-ip.ts";
export { clientKey, type Identity, type IdentityOptions } from "../http/identity/client-key.ts";
export type { JoseLike, JwtOptions } from "../http/identity/jwt.ts";
export type { Preset } from "../http/identity/presets.ts";
export { type Answer, type Rejection, type RejectionOptions, tooManyRequests } from "../http/rejection.ts";
