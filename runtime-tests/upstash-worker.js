/** A Worker whose requests share one limiter over REST. Module state outlives a request, its I/O does not. */
import { Redis } from "@upstash/redis/cloudflare";
import { upstashRateLimiter } from "sluice/upstash";

let limiter;

export default {
  async fetch(_request, { url, token }) {
    limiter ??= upstashRateLimiter(
      new Redis({ url, token, retry: { retries: 0 } }),
      { capacity: 10, tokensPerSecond: "1/h", name: "edge" },
      { localDenialMs: 0, deadlineMs: 1000 },
    );
    return Response.json(await limiter.consume("k"));
  },
};
