/** A Worker for the tests of docs/guide/test-rate-limits.md. */
import { env } from "cloudflare:workers";
import { durableObjectRateLimiter } from "sluice/cloudflare";
import { rateLimit } from "sluice/fetch";

export { RateLimiterDO } from "sluice/cloudflare";

const limiter = durableObjectRateLimiter(env.RATE_LIMITER, "2/m");
const limit = rateLimit({ limiter, identity: "cloudflare" });

export default { fetch: limit(() => new Response("hello\n")) };
