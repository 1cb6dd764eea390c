/** What every framework shares: who is calling, and what to answer, as data. */
export type { ApiKeyOptions } from "./api-key.ts";
export { clientIp, type RequestFacts, type RequestHeaders, type Trust, type TrustOptions } from "./client-ip.ts";
export { clientKey, type Identity, type IdentityOptions } from "./client-key.ts";
export {
  type HeaderFacts,
  type HeaderFields,
  type HeaderMode,
  type HeaderOptions,
  type Policies,
  rateLimitHeaders,
} from "./headers.ts";
export type { JoseLike, JwtOptions } from "./jwt.ts";
export { partitionKey } from "./partition-key.ts";
export type { Preset } from "./presets.ts";
export { type Answer, type Rejection, type RejectionOptions, tooManyRequests } from "./too-many-requests.ts";
