/** What every framework shares: headers and rejections as data. */
export { type HeaderFields, type Policies, rateLimitHeaders } from "./headers.ts";
export { type Rejection, type RejectionOptions, tooManyRequests } from "./too-many-requests.ts";
