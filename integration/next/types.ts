/** `rateLimit`, `limitRoute` and `limitAction` in every position of Next.js, type-checked with Next.js 16. */
import { headers } from "next/headers";
import type { NextProxy } from "next/server";
import { type NextFetchEvent, type NextRequest, NextResponse } from "next/server";
import { createLimiter, tokenBucket } from "sluice";
import { getRateLimit, limitAction, limitRoute, type NextRateLimitOptions, rateLimit } from "sluice/next";
import { defineRules } from "sluice/rules";

const identity = { preset: "nginx", trustedProxies: 1 } as const;
const plans = {
  free: createLimiter({ policy: tokenBucket("1/m") }),
  paid: createLimiter({ policy: tokenBucket("9/m") }),
};

export const proxy: NextProxy = rateLimit({ policies: ["10/s", "1000/h"], identity: "vercel" });
export const middleware: NextProxy = rateLimit({ policy: "5/m", identity }, () => NextResponse.next());
rateLimit({ policy: "5/m", identity }, async (request: NextRequest, event: NextFetchEvent) => {
  event.waitUntil(Promise.resolve());
  if (request.nextUrl.pathname === "/old") return NextResponse.redirect(new URL("/new", request.url));
  return undefined;
});

const limit = limitRoute({ policy: "5/m", identity, refundIf: "succeeded" });
export const GET: (request: NextRequest) => Promise<Response> = limit((request: NextRequest) =>
  Response.json({ remaining: getRateLimit(request)?.remaining }),
);
type RoomContext = { params: Promise<{ room: string }> };
export const POST: (request: NextRequest, context: RoomContext) => Promise<Response> = limit(
  async (_request: NextRequest, { params }: RoomContext) => Response.json(await params),
);

/** What a form shows. */
type State = { readonly error?: string; readonly sent?: true };
export const send: (previous: State, form: FormData) => Promise<State> = limitAction(
  { policy: "5/m", headers, identity, path: "/actions/send", onLimited: (): State => ({ error: "Try again later." }) },
  async (_previous: State, form: FormData): Promise<State> => (form.get("text") ? { sent: true } : { error: "Empty." }),
);

limitRoute({
  limiter: (request) => plans[request.headers.has("authorization") ? "paid" : "free"],
  key: async (request, { params }: RoomContext) => `${request.headers.get("x-tenant")}:${(await params).room}`,
  cost: async (request) => Number(new URL(request.url).searchParams.get("cost")),
  skip: (request) => new URL(request.url).pathname === "/health",
  onLimited: ({ args: [request], decision }) => Response.json({ url: request.url, policy: decision.policy }),
  onError: (_error, request) => (request.method === "POST" ? "deny" : "allow"),
});
export const options: NextRateLimitOptions = { policy: "5/m", identity, onLimited: async () => new Response("a body") };

const rules = defineRules({
  rules: [{ name: "api", match: "/api/*", limits: { tenant: "5/m" } }],
  fallback: "unlimited",
});
rateLimit({ rules, identity, facts: { tenant: (request) => request.headers.get("x-tenant") ?? undefined } });
// @ts-expect-error a fact of the rules is missing
rateLimit({ rules, identity, facts: {} });
// @ts-expect-error a misspelt fact
limitRoute({ rules, identity, facts: { tenant: () => "acme", tenants: () => "acme" } });
// @ts-expect-error no such option
rateLimit({ policy: "5/m", max: 5 });
// @ts-expect-error a misspelt option
limitRoute({ policy: "5/m", identity, onLimit: () => new Response() });
// @ts-expect-error not a rate
rateLimit({ policy: "fast", identity });
// @ts-expect-error no such platform
rateLimit({ policy: "5/m", identity: "cloudfare" });
// @ts-expect-error a request has no such property
rateLimit({ policy: "5/m", key: (request) => request.remoteAddress });
// @ts-expect-error the argument is the request, not the number of a user
rateLimit({ policy: "5/m", key: (user: number) => `user:${user}` });
// @ts-expect-error not a response
limitRoute({ policy: "5/m", identity, onLimited: () => ({ error: "slow down" }) });
// @ts-expect-error a proxy responds with a response
rateLimit({ policy: "5/m", identity }, () => "hello");
// @ts-expect-error a route handler responds with a response
limit(() => "hello");
// @ts-expect-error headers and onLimited are required
limitAction({ policy: "5/m", identity }, async () => {});
// @ts-expect-error onLimited returns what the action returns
limitAction({ policy: "5/m", headers, identity, onLimited: () => 429 }, async () => ({ sent: true }));
// @ts-expect-error options are required
rateLimit();
