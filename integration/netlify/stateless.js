/** One edge function on Upstash, with module state that is new with each request, as on Netlify. */
import { Redis } from "@upstash/redis";
import { rateLimit } from "sluice/netlify";
import { upstashRateLimiter } from "sluice/upstash";

export function createFunction(url, token) {
  const redis = new Redis({ url, token, retry: { retries: 0 } });
  return rateLimit({ limiter: upstashRateLimiter(redis, "3/h", { deadlineMs: "20s" }) });
}

Deno.serve({ port: Number(Deno.env.get("PORT")), hostname: "127.0.0.1", onListen() {} }, (request) => {
  const edgeFunction = createFunction(Deno.env.get("UPSTASH_URL"), Deno.env.get("UPSTASH_TOKEN"));
  return edgeFunction(request, { ip: "203.0.113.7", next: async () => new Response("from the origin") });
});
