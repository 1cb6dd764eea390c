/** `rateLimit` in every position of SvelteKit, type-checked with SvelteKit 3. */
import type { RequestEvent, RequestHandler, ServerLoad } from "@sveltejs/kit";
import { type Handle, sequence } from "@sveltejs/kit/hooks";
import { createLimiter, tokenBucket } from "sluice";
import { defineRules } from "sluice/rules";
import { getRateLimit, rateLimit, type SvelteKitRateLimitOptions } from "sluice/sveltekit";

const limit = rateLimit({ policy: "100/m" });
const plans = {
  free: createLimiter({ policy: tokenBucket("1/m") }),
  paid: createLimiter({ policy: tokenBucket("9/m") }),
};

export const handle: Handle = limit;
export const ordered: Handle = sequence(limit, ({ event, resolve }) => resolve(event), rateLimit({ policy: "5/m" }));
export const onApi: Handle = (input) =>
  input.event.url.pathname.startsWith("/api/") ? limit(input) : input.resolve(input.event);
export const GET: RequestHandler = (event) => Response.json({ remaining: getRateLimit(event)?.remaining });
export const load: ServerLoad = (event) => ({ remaining: getRateLimit(event)?.remaining });

rateLimit({ policies: ["10/s", "1000/h"], refundIf: "succeeded" });
rateLimit({
  limiter: ({ locals }) => plans[(locals as { plan?: "free" | "paid" }).plan ?? "free"],
  key: ({ locals, route, params }) => `${(locals as { user?: string }).user}:${route.id}:${params.room}`,
  cost: async ({ url }) => Number(url.searchParams.get("cost")),
  skip: ({ url, isDataRequest }) => isDataRequest || url.pathname === "/health",
  onLimited: ({ args: [event], decision }) => Response.json({ route: event.route.id, policy: decision.policy }),
  onError: (_error, { request }) => (request.method === "POST" ? "deny" : "allow"),
});
export const options: SvelteKitRateLimitOptions = { policy: "5/m", onLimited: async () => new Response("a body") };

const rules = defineRules({
  rules: [{ name: "api", match: "/api/*", limits: { tenant: "5/m" } }],
  fallback: "unlimited",
});
rateLimit({ rules, facts: { tenant: (event: RequestEvent) => event.cookies.get("tenant") } });
// @ts-expect-error a fact of the rules is missing
rateLimit({ rules, facts: {} });
// @ts-expect-error a misspelt fact
rateLimit({ rules, facts: { tenant: () => "acme", tenants: () => "acme" } });
// @ts-expect-error no such option
rateLimit({ policy: "5/m", max: 5 });
// @ts-expect-error a misspelt option
rateLimit({ policy: "5/m", onLimit: () => new Response() });
// @ts-expect-error not a rate
rateLimit({ policy: "fast" });
// @ts-expect-error no such platform
rateLimit({ policy: "5/m", identity: "cloudfare" });
// @ts-expect-error an event has no such property
rateLimit({ policy: "5/m", key: (event) => event.remoteAddress });
// @ts-expect-error the argument is the event, not the number of a user
rateLimit({ policy: "5/m", key: (user: number) => `user:${user}` });
// @ts-expect-error not a response
rateLimit({ policy: "5/m", onLimited: () => ({ error: "slow down" }) });
// @ts-expect-error options are required
rateLimit();
