/** A Worker that limits each client to a burst of 10 and then 5 requests a second, the same in all of Cloudflare. */
import { memoryRateLimiter, type RateLimiter } from "sluice";
import { durableObjectRateLimiter, type RateLimiterDO } from "sluice/cloudflare";
import { type DecidedRequest, type FetchArgs, rateLimit } from "sluice/fetch";

// Cloudflare makes the objects of the class that the Worker exports under the name in wrangler.jsonc.
export { RateLimiterDO } from "sluice/cloudflare";

interface Env {
  RATE_LIMITER?: DurableObjectNamespace<RateLimiterDO>;
  /** Opens /debug/bucket. Without it that route is not there. */
  DEBUG_SECRET?: string;
}

const policy = { capacity: 10, tokensPerSecond: 5, name: "api" };

let limiter: RateLimiter | undefined;

/** One limiter for each isolate: bindings come with a request, and the limiter stays for those that follow. */
function limiterOf({ RATE_LIMITER }: Env): RateLimiter {
  // When its objects can't be reached it decides by itself, and tells so only to those who listen.
  limiter ??= RATE_LIMITER ? durableObjectRateLimiter(RATE_LIMITER, policy, { onEvent: console.warn }) : inMemory();
  return limiter;
}

function inMemory(): RateLimiter {
  console.warn(
    "There is no binding RATE_LIMITER: each isolate counts for itself, and clients get more than the limit.",
  );
  return memoryRateLimiter(policy);
}

/** One line of JSON for each decision. The key stays out of it: it is the address of a client. */
function log({ args: [request], key, decision }: DecidedRequest<FetchArgs>): void {
  const { policy, allowed, remaining, retryAfterMs, degraded } = decision;
  const { pathname: path } = new URL(request.url);
  const [keyKind] = key.split(":");
  console.log(JSON.stringify({ path, keyKind, policy, allowed, remaining, retryAfterMs, degraded }));
}

const limit = rateLimit({
  // A Worker sees no socket. Cloudflare tells the client's address in a header that nobody else can write.
  identity: "cloudflare",
  limiter: (_request, env: Env) => limiterOf(env),
  onDecision: log,
  // Nobody else hears why a request could not be decided about; it is answered with 500.
  onError: (error) => console.error(error),
});

const api = limit(async (_request: Request, _env: Env) => Response.json({ hello: "world" }));

/** Shows what is kept about a key, such as ip:203.0.113.7, to those who know the secret. */
async function showBucket(request: Request, env: Env): Promise<Response> {
  if (!(await knowsSecret(request, env))) return notFound();
  const key = new URL(request.url).searchParams.get("key");
  if (!key) return Response.json({ error: "which key? /debug/bucket?key=ip:203.0.113.7" }, { status: 400 });
  return Response.json(await limiterOf(env).inspect(key), { headers: { "Cache-Control": "no-store" } });
}

/** A comparison that stops at the first difference would tell, by its time, how much of a guess is right. */
async function knowsSecret(request: Request, { DEBUG_SECRET }: Env): Promise<boolean> {
  const given = request.headers.get("Authorization");
  if (!DEBUG_SECRET || !given) return false;
  // Hashes have the same length, whatever was sent.
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
