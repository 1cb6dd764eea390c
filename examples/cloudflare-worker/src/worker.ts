/** A Worker that limits each client to bursts of 10 requests, refilled at 5 per second, in all locations together. */
import { memoryRateLimiter, type RateLimiter } from "sluice";
import { durableObjectRateLimiter, type RateLimiterDO } from "sluice/cloudflare";
import { type DecidedRequest, type FetchArgs, rateLimit } from "sluice/fetch";

// Cloudflare creates the objects from this class: the Worker must export it under the name in wrangler.jsonc.
export { RateLimiterDO } from "sluice/cloudflare";

interface Env {
  RATE_LIMITER?: DurableObjectNamespace<RateLimiterDO>;
  /** Enables /debug/bucket. Without it, that route returns 404. */
  DEBUG_SECRET?: string;
}

const policy = { capacity: 10, tokensPerSecond: 5, name: "api" };

let limiter: RateLimiter | undefined;

/** Creates one limiter per isolate, with the first request: bindings are not available before. */
function limiterOf({ RATE_LIMITER }: Env): RateLimiter {
  // If the objects are unavailable, the limiter decides in memory and reports it to onEvent.
  limiter ??= RATE_LIMITER ? durableObjectRateLimiter(RATE_LIMITER, policy, { onEvent: console.warn }) : inMemory();
  return limiter;
}

function inMemory(): RateLimiter {
  console.warn(
    "There is no binding RATE_LIMITER: each isolate counts for itself, and clients get more than the limit.",
  );
  return memoryRateLimiter(policy);
}

/** Logs one line of JSON per decision, without the key: it is the client's IP address. */
function log({ args: [request], key, decision }: DecidedRequest<FetchArgs>): void {
  const { policy, allowed, remaining, retryAfterMs, degraded } = decision;
  const { pathname: path } = new URL(request.url);
  const [keyKind] = key.split(":");
  console.log(JSON.stringify({ path, keyKind, policy, allowed, remaining, retryAfterMs, degraded }));
}

const limit = rateLimit({
  // Reads the client's IP address from a header that Cloudflare overwrites.
  identity: "cloudflare",
  limiter: (_request, env: Env) => limiterOf(env),
  onDecision: log,
  // A request that can't be checked gets a 500 response. Log the cause.
  onError: (error) => console.error(error),
});

const api = limit(async (_request: Request, _env: Env) => Response.json({ hello: "world" }));

/** Returns what is stored for a key, such as ip:203.0.113.7. */
async function showBucket(request: Request, env: Env): Promise<Response> {
  if (!(await hasSecret(request, env))) return notFound();
  const key = new URL(request.url).searchParams.get("key");
  if (!key) return Response.json({ error: "Add a key: /debug/bucket?key=ip:203.0.113.7" }, { status: 400 });
  return Response.json(await limiterOf(env).inspect(key), { headers: { "Cache-Control": "no-store" } });
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

function notFound(): Response {
  return new Response("not found\n", { status: 404 });
}

export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === "/api") return api(request, env);
    if (pathname === "/debug/bucket") return showBucket(request, env);
    return notFound();
  },
} satisfies ExportedHandler<Env>;
