/** `rateLimit` in every position of h3, type-checked with h3 2. */
import { defineHandler, defineMiddleware, H3, type H3Event, type Middleware } from "h3";
import { createLimiter, tokenBucket } from "sluice";
import { getRateLimit, type H3RateLimitOptions, rateLimit } from "sluice/h3";
import { defineRules } from "sluice/rules";

const app = new H3();
const limit: Middleware = rateLimit({ policy: "100/m" });
const plans = {
  free: createLimiter({ policy: tokenBucket("1/m") }),
  paid: createLimiter({ policy: tokenBucket("9/m") }),
};

app.use(limit);
app.use("/api/**", rateLimit({ policies: ["10/s", "1000/h"] }));
app.use("/login", rateLimit({ policy: "5/m", refundIf: "succeeded" }), { method: "POST" });
app.get("/users/:id", (event) => `${getRateLimit(event)?.remaining}`, { middleware: [rateLimit({ policy: "5/m" })] });
/** The file of a Nitro app: `middleware/limit.ts`. */
export default defineMiddleware(rateLimit({ policy: "5/m" }));
export const handler = defineHandler({ middleware: [limit], handler: () => "ok" });

app.use(
  rateLimit({
    limiter: ({ context }) => plans[(context.plan as "free" | "paid" | undefined) ?? "free"],
    key: ({ context, url }) => `${context.user}:${url.pathname}`,
    cost: async ({ url }) => Number(url.searchParams.get("cost")),
    skip: ({ url }) => url.pathname === "/health",
    onLimited: ({ args: [event], decision }) => Response.json({ path: event.url.pathname, policy: decision.policy }),
    onError: (_error, { req }) => (req.method === "POST" ? "deny" : "allow"),
  }),
);
export const options: H3RateLimitOptions = { policy: "5/m", onLimited: async () => new Response("a body") };

const rules = defineRules({
  rules: [{ name: "api", match: "/api/*", limits: { tenant: "5/m" } }],
  fallback: "unlimited",
});
app.use(rateLimit({ rules, facts: { tenant: (event: H3Event) => event.req.headers.get("x-tenant") ?? undefined } }));
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
