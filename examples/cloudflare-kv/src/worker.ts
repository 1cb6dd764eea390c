/** The same limit, 100 requests in any 60 seconds, twice: about that on KV at /kv, and exactly that at /exact. */
import { waitUntil } from "cloudflare:workers";
import { type RateLimiter, slidingLog } from "sluice";
import { durableObjectRateLimiter, kvRateLimiter, type RateLimiterDO } from "sluice/cloudflare";
import { rateLimit } from "sluice/fetch";

// Cloudflare makes the objects of the class that the Worker exports under the name in wrangler.jsonc.
export { RateLimiterDO } from "sluice/cloudflare";

interface Env {
  KV: KVNamespace;
  RATE_LIMITER: DurableObjectNamespace<RateLimiterDO>;
}

const policy = slidingLog("100/60s", { name: "pages" });

// Made once in each isolate: on KV an isolate counts by itself between its reads, and has to remember that.
let approximate: RateLimiter | undefined;
let exact: RateLimiter | undefined;

const aboutThat = rateLimit({
  identity: "cloudflare",
  limiter(_request, { KV }: Env) {
    // A write to KV takes long. With waitUntil nobody waits for it: it ends after the response was sent.
    approximate ??= kvRateLimiter(KV, policy, { waitUntil });
    return approximate;
  },
  onError: (error) => console.error(error),
});

const exactlyThat = rateLimit({
  identity: "cloudflare",
  limiter(_request, { RATE_LIMITER }: Env) {
    exact ??= durableObjectRateLimiter(RATE_LIMITER, policy);
    return exact;
  },
  onError: (error) => console.error(error),
});

const hello = async (_request: Request, _env: Env) => Response.json({ hello: "world" });
const routes: Record<string, typeof hello> = { "/kv": aboutThat(hello), "/exact": exactlyThat(hello) };

export default {
  async fetch(request, env) {
    const route = routes[new URL(request.url).pathname];
    return route ? route(request, env) : new Response("not found\n", { status: 404 });
  },
} satisfies ExportedHandler<Env>;
