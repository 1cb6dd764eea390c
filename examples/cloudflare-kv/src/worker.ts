/** Limits each client to 100 requests in any 60 seconds, twice: approximately on KV at /kv, exactly on Durable Objects at /exact. */
import { waitUntil } from "cloudflare:workers";
import { type RateLimiter, slidingLog } from "sluice";
import { durableObjectRateLimiter, kvRateLimiter, type RateLimiterDO } from "sluice/cloudflare";
import { rateLimit } from "sluice/fetch";

// Cloudflare creates the objects from this class: the Worker must export it under the name in wrangler.jsonc.
export { RateLimiterDO } from "sluice/cloudflare";

interface Env {
  KV: KVNamespace;
  RATE_LIMITER: DurableObjectNamespace<RateLimiterDO>;
  /** Enables /debug/bucket. Without it, that route returns 404. */
  DEBUG_SECRET?: string;
}

const policy = slidingLog("100/60s", { name: "pages" });

// Created once per isolate: between its reads of KV, an isolate counts in memory.
let approximate: RateLimiter | undefined;
let exact: RateLimiter | undefined;

function approximateLimiter({ KV }: Env): RateLimiter {
  // Writes to KV are slow. With waitUntil they finish after the response is sent.
  approximate ??= kvRateLimiter(KV, policy, { waitUntil });
  return approximate;
}

function exactLimiter({ RATE_LIMITER }: Env): RateLimiter {
  exact ??= durableObjectRateLimiter(RATE_LIMITER, policy);
  return exact;
}

/** Limits the route with the limiter that `limiterOf` returns. */
function limitedBy(limiterOf: (env: Env) => RateLimiter) {
  const limit = rateLimit({
    identity: "cloudflare",
    limiter: (_request, env: Env) => limiterOf(env),
    onError: (error) => console.error(error),
  });
  return limit(async (_request: Request, _env: Env) => Response.json({ hello: "world" }));
}

/** Returns what both stores keep for a key, such as ip:203.0.113.7: the stored value and its time to live. */
async function showBucket(request: Request, env: Env): Promise<Response> {
  if (!(await hasSecret(request, env))) return notFound();
  const key = new URL(request.url).searchParams.get("key");
  if (!key) return Response.json({ error: "Add a key: /debug/bucket?key=ip:203.0.113.7" }, { status: 400 });
  const [kv, durableObject] = await Promise.all([approximateLimiter(env).inspect(key), exactLimiter(env).inspect(key)]);
  return Response.json({ kv, durableObject }, { headers: { "Cache-Control": "no-store" } });
}

/** Compares in constant time: the duration must not reveal how much of a guess is right. */
async function hasSecret(request: Request, { DEBUG_SECRET }: Env): Promise<boolean> {
  const given = request.headers.get("Authorization");
  if (!DEBUG_SECRET || !given) return false;
  // Hashes have equal lengths, which timingSafeEqual requires.
  return crypto.subtle.timingSafeEqual(await sha256(given), await sha256(`Bearer ${DEBUG_SECRET}`));
}

function sha256(text: string): Promise<ArrayBuffer> {
  return crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
}

async function notFound(): Promise<Response> {
  return new Response("not found\n", { status: 404 });
}

const routes: Record<string, (request: Request, env: Env) => Promise<Response>> = {
  "/kv": limitedBy(approximateLimiter),
  "/exact": limitedBy(exactLimiter),
  "/debug/bucket": showBucket,
};

export default {
  async fetch(request, env) {
    const route = routes[new URL(request.url).pathname] ?? notFound;
    return route(request, env);
  },
} satisfies ExportedHandler<Env>;
