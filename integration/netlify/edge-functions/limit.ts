/** The edge function of docs/middleware/netlify.md. */
import type { Config } from "@netlify/edge-functions";
import { Redis } from "@upstash/redis";
import { tokenBucket } from "sluice";
import { rateLimit } from "sluice/netlify";
import { upstashRateLimiter } from "sluice/upstash";

const redis = new Redis({
  url: Netlify.env.get("UPSTASH_REDIS_REST_URL"),
  token: Netlify.env.get("UPSTASH_REDIS_REST_TOKEN"),
  retry: { retries: 0 },
});

export default rateLimit({
  limiter: upstashRateLimiter(redis, tokenBucket("3/h", { name: "api" }), { deadlineMs: "1s" }),
});

export const config: Config = { path: "/api/*" };
