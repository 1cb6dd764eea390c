/** `sluice/http`: client identity, rate limit headers and 429 responses, as data. */
export type { HeaderContext, HeaderFields } from "../http/headers/field-writer.ts";
export { partitionKey } from "../http/headers/partition-key.ts";
export type { Policies } from "../http/headers/policies.ts";
export { type HeaderMode, type HeaderOptions, rateLimitHeaders } from "../http/headers/rate-limit-headers.ts";
export type { ApiKeyOptions } from "../http/identity/api-key.ts";
export {
  clientIp,
  type RequestHeaders,
  type RequestLike,
  type Trust,
  type TrustOptions,
} from "../http/identity/client-ip.ts";
export { clientKey, type Identity, type IdentityOptions } from "../http/identity/client-key.ts";
export type { JoseLike, JwtOptions } from "../http/identity/jwt.ts";
export type { Preset } from "../http/identity/presets.ts";
export {
  type ProblemResponse,
  type Rejection,
  type RejectionOptions,
  type ResponseData,
  tooManyRequests,
} from "../http/rejection.ts";
export type { ResponseFields } from "../http/response.ts";
