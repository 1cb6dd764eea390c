/**
 * The app of docs/migrating/from-upstash-ratelimit.md after the migration: a fetch handler, limited in Upstash Redis.
 * Run it with: node examples/run.js migrating/from-upstash-ratelimit
 */
import { Redis } from "@upstash/redis";
import { slidingWindow } from "sluice";
import { rateLimitHeaders, tooManyRequests } from "sluice/http";
import { upstashRateLimiter } from "sluice/upstash";

const users = new Map([
  ["Bearer key-of-ada", "ada"],
  ["Bearer key-of-eve", "eve"],
]);

const redis = Redis.fromEnv({ retry: { retries: 0 } });
const limiter = upstashRateLimiter(redis, slidingWindow("10/m", { name: "chat" }), { deadlineMs: 1000 });

export default {
  /** @type {(request: Request) => Promise<Response>} */
  async fetch(request) {
    const user = users.get(request.headers.get("authorization") ?? "");
    if (user === undefined) return new Response("unknown API key\n", { status: 401 });
    const words = (await request.text()).split(" ").length;
    const decision = await limiter.consume(`user:${user}`, words);
    if (decision.allowed) {
      return new Response("answer\n", { headers: rateLimitHeaders(decision, limiter.getPolicy()) });
    }
    const { status, headers, body } = tooManyRequests(decision, limiter.getPolicy(), {
      accept: request.headers.get("accept") ?? undefined,
    });
    return new Response(body, { status, headers });
  },
};
