/** `rateLimit` in every position of React Router, type-checked with React Router 8. */
import {
  type ActionFunctionArgs,
  createContext,
  type LoaderFunctionArgs,
  type MiddlewareFunction,
  type RouterContextProvider,
} from "react-router";
import { createLimiter, tokenBucket } from "sluice";
import { getRateLimit, type ReactRouterRateLimitOptions, rateLimit } from "sluice/react-router";
import { defineRules } from "sluice/rules";

/** What an earlier middleware has found out. */
const userContext = createContext<{ readonly id: string; readonly plan: "free" | "paid" }>();
const identity = { preset: "nginx", trustedProxies: 1 } as const;
const plans = {
  free: createLimiter({ policy: tokenBucket("1/m") }),
  paid: createLimiter({ policy: tokenBucket("9/m") }),
};

export const middleware: MiddlewareFunction<Response>[] = [
  rateLimit({ policies: ["10/s", "1000/h"], identity }),
  rateLimit({ policy: "5/m", identity: "vercel", refundIf: "succeeded" }),
];

export const loader = async (args: LoaderFunctionArgs<RouterContextProvider>) => ({
  remaining: getRateLimit(args)?.remaining,
});
export const action = async (args: ActionFunctionArgs<RouterContextProvider>) => {
  getRateLimit(args)?.settle?.(2);
  return null;
};

rateLimit({
  limiter: ({ context }) => plans[context.get(userContext).plan],
  key: ({ context, params }) => `${context.get(userContext).id}:${params.room}`,
  cost: async ({ request }) => Number(new URL(request.url).searchParams.get("cost")),
  skip: ({ request }) => new URL(request.url).pathname === "/health",
  onLimited: ({ args: [{ params }], decision }) => Response.json({ room: params.room, policy: decision.policy }),
  onError: (_error, { request }) => (request.method === "POST" ? "deny" : "allow"),
});
export const options: ReactRouterRateLimitOptions = { policy: "5/m", identity, onLimited: async () => new Response() };

const rules = defineRules({
  rules: [{ name: "api", match: "/api/*", limits: { tenant: "5/m" } }],
  fallback: "unlimited",
});
rateLimit({ rules, identity, facts: { tenant: ({ params }) => params.tenant } });
// @ts-expect-error a fact of the rules is missing
rateLimit({ rules, identity, facts: {} });
// @ts-expect-error a misspelt fact
rateLimit({ rules, identity, facts: { tenant: () => "acme", tenants: () => "acme" } });
// @ts-expect-error no such option
rateLimit({ policy: "5/m", max: 5 });
// @ts-expect-error a misspelt option
rateLimit({ policy: "5/m", identity, onLimit: () => new Response() });
// @ts-expect-error not a rate
rateLimit({ policy: "fast", identity });
// @ts-expect-error no such platform
rateLimit({ policy: "5/m", identity: "cloudfare" });
// @ts-expect-error the arguments have no such property
rateLimit({ policy: "5/m", key: (args) => args.remoteAddress });
// @ts-expect-error the argument is that of a middleware, not the number of a user
rateLimit({ policy: "5/m", key: (user: number) => `user:${user}` });
// @ts-expect-error not a response
rateLimit({ policy: "5/m", identity, onLimited: () => ({ error: "slow down" }) });
// @ts-expect-error options are required
rateLimit();
