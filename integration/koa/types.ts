/** `rateLimit` in every position of Koa, type-checked with the types of Koa 3. */
import type Koa from "koa";
import type { Context, DefaultContext, DefaultState, Middleware } from "koa";
import { createLimiter, tokenBucket } from "sluice";
import { getRateLimit, type KoaRateLimitOptions, rateLimit } from "sluice/koa";
import { defineRules } from "sluice/rules";

/** What an app adds to the context for its users. */
interface State extends DefaultState {
  user?: { readonly id: string; readonly plan: "free" | "paid" };
}

declare const app: Koa;
declare const typedApp: Koa<State, DefaultContext>;
declare const compose: (middleware: readonly Middleware[]) => Middleware;

const limit: Middleware = rateLimit({ policy: "100/m" });
const plans = {
  free: createLimiter({ policy: tokenBucket("1/m") }),
  paid: createLimiter({ policy: tokenBucket("9/m") }),
};

app.use(limit);
app.use(rateLimit({ policies: ["10/s", "1000/h"] }));
typedApp.use(rateLimit({ policy: "5/m" }));
app.use(compose([limit, rateLimit({ policy: "5/m", refundIf: "succeeded" })]));
app.use((context, next) => (context.path.startsWith("/api/") ? limit(context, next) : next()));
app.use(async (context, next) => {
  context.set("X-Remaining", `${getRateLimit(context)?.remaining}`);
  await next();
});

app.use(
  rateLimit({
    limiter: ({ state }) => plans[(state as State).user?.plan ?? "free"],
    key: ({ state, ip, path }) => `${(state as State).user?.id ?? ip}:${path}`,
    cost: async ({ query }) => Number(query.cost),
    skip: ({ path }) => path === "/health",
    onLimited: ({ args: [context], decision }) => {
      context.body = { host: context.host, policy: decision.policy };
    },
    onError: (_error, { secure }) => (secure ? "deny" : "allow"),
  }),
);
export const options: KoaRateLimitOptions = { policy: "5/m", onLimited: () => "a body" };

const rules = defineRules({
  rules: [{ name: "api", match: "/api/*", limits: { tenant: "5/m" } }],
  fallback: "unlimited",
});
app.use(rateLimit({ rules, facts: { tenant: (context: Context) => context.subdomains[0] } }));
// @ts-expect-error a fact of the rules is missing
rateLimit({ rules, facts: {} });
// @ts-expect-error a misspelt fact
rateLimit({ rules, facts: { tenant: () => "acme", tenants: () => "acme" } });
// @ts-expect-error no such option
rateLimit({ policy: "5/m", max: 5 });
// @ts-expect-error a misspelt option
rateLimit({ policy: "5/m", onLimit: () => "slow down" });
// @ts-expect-error not a rate
rateLimit({ policy: "fast" });
// @ts-expect-error no such platform
rateLimit({ policy: "5/m", identity: "cloudfare" });
// @ts-expect-error a key is a string
rateLimit({ policy: "5/m", key: (context) => context.status });
// @ts-expect-error the argument is the context, not the number of a user
rateLimit({ policy: "5/m", key: (user: number) => `user:${user}` });
// @ts-expect-error there is one argument
rateLimit({ policy: "5/m", onLimited: (context: Context, next: () => void) => [context, next] });
// @ts-expect-error options are required
rateLimit();
// @ts-expect-error a Koa middleware wraps no handler
rateLimit({ policy: "5/m" })(() => new Response());
