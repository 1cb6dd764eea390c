/** `rateLimit` of `sluice/fetch` in the positions of Workers, Bun, Deno and route handlers. Type-checked only. */
import { createLimiter, tokenBucket } from "sluice";
import { getRateLimit, rateLimit } from "sluice/fetch";

interface Env {
  readonly SECRET: string;
}

/** The shape of a Worker. */
interface Worker {
  fetch(request: Request, env: Env, context: { waitUntil(promise: Promise<unknown>): void }): Promise<Response>;
}

/** A handler as a framework calls it: with its own request and route parameters. */
interface OwnRequest extends Request {
  readonly nextUrl: URL;
}
type RouteHandler = (request: OwnRequest, route: { params: Promise<{ id: string }> }) => Promise<Response>;

const limit = rateLimit({ policy: "100/m", identity: "cloudflare" });
const plans = {
  free: createLimiter({ policy: tokenBucket("1/m") }),
  paid: createLimiter({ policy: tokenBucket("9/m") }),
};

export const worker: Worker = { fetch: limit(async (_request, env, _context) => new Response(env.SECRET)) };
export const route: RouteHandler = limit(
  async ({ nextUrl }, { params }) => new Response(nextUrl.href + (await params).id),
);
export const plain: (request: Request) => Promise<Response> = limit(() => new Response("ok"));

rateLimit({
  limiter: (request) => plans[request.headers.get("X-Plan") === "paid" ? "paid" : "free"],
  key: (request, env: Env) => `${new URL(request.url).pathname}:${env.SECRET}`,
  cost: async (request) => (await request.clone().text()).length,
  skip: (request) => request.method === "OPTIONS",
  onLimited: ({ args: [request], decision }) => Response.json({ url: request.url, policy: decision.policy }),
  onError: () => "deny",
});

rateLimit({
  limits: [
    { limiter: plans.free },
    {
      limiter: async (request) => (request.method === "POST" ? plans.paid : undefined),
      key: (request) => request.url,
      cost: 2,
    },
  ],
});
export const remainingOf = (...[request]: Parameters<typeof getRateLimit>): number | undefined =>
  getRateLimit(request)?.remaining;
// @ts-expect-error a third-party limiter can't be charged with others
rateLimit({ limits: [{ limiter: { consume: async () => ({ allowed: true }) } }] });
// @ts-expect-error a header may be missing
rateLimit({ policy: "5/m", key: (request) => request.headers.get("X-User") });
// @ts-expect-error not a rate
rateLimit({ policy: "fast" });
// @ts-expect-error no such option
rateLimit({ policy: "5/m", limit: 5 });
// @ts-expect-error no such platform
rateLimit({ policy: "5/m", identity: "cloudfare" });
// @ts-expect-error onLimited returns a response
rateLimit({ policy: "5/m", onLimited: () => "slow down" });
// @ts-expect-error a handler returns a response
limit(() => undefined);
