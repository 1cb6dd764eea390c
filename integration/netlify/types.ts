/** `rateLimit` in every position of a Netlify edge function, type-checked with the types of Netlify. */
import type { Config, Context, EdgeFunction } from "@netlify/edge-functions";
import { createLimiter, tokenBucket } from "sluice";
import { getRateLimit, type NetlifyRateLimitOptions, rateLimit } from "sluice/netlify";
import { defineRules } from "sluice/rules";

const plans = {
  free: createLimiter({ policy: tokenBucket("1/m") }),
  paid: createLimiter({ policy: tokenBucket("9/m") }),
};

const limit = rateLimit({ limiter: plans.free });
export default limit satisfies EdgeFunction;
export const config: Config = { path: "/api/*", excludedPath: "/api/health" };
export const wrapped: EdgeFunction = async (request, context) => {
  const response = await limit(request, context);
  response.headers.set("X-Remaining", `${getRateLimit(request)?.remaining}`);
  return response;
};

rateLimit({ policies: ["10/s", "1000/h"], refundIf: "succeeded" });
rateLimit({
  limiter: (request) => plans[request.headers.has("authorization") ? "paid" : "free"],
  key: (request, { geo, ip }) => `${geo.country?.code}:${ip}:${new URL(request.url).pathname}`,
  cost: async (request) => Number(new URL(request.url).searchParams.get("cost")),
  skip: (_request, { deploy }) => deploy.context !== "production",
  onLimited: ({ args: [request, context], decision }) =>
    Response.json({ url: request.url, site: context.site.name, policy: decision.policy }),
  onError: (_error, request, { requestId }) => (request.method === "POST" && requestId ? "deny" : "allow"),
});
export const options: NetlifyRateLimitOptions = { policy: "5/m", onLimited: async () => new Response("a body") };

const rules = defineRules({
  rules: [{ name: "api", match: "/api/*", limits: { tenant: "5/m" } }],
  fallback: "unlimited",
});
rateLimit({ rules, facts: { tenant: (_request: Request, context: Context) => context.params.tenant } });
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
// @ts-expect-error the context has no such property
rateLimit({ policy: "5/m", key: (_request, context) => context.remoteAddress });
// @ts-expect-error the argument is the request, not the number of a user
rateLimit({ policy: "5/m", key: (user: number) => `user:${user}` });
// @ts-expect-error not a response
rateLimit({ policy: "5/m", onLimited: () => ({ error: "slow down" }) });
// @ts-expect-error options are required
rateLimit();
