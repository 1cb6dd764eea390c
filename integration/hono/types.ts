/** `rateLimit` in every position of Hono, type-checked only. */
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { createFactory } from "hono/factory";
import { createLimiter, type Decision, tokenBucket } from "sluice";
import { getRateLimit, type RateLimitVariables, rateLimit } from "sluice/hono";

interface Own {
  Bindings: { readonly SECRET: string };
  Variables: { readonly user: string } & RateLimitVariables;
}

const plain = new Hono();
const app = new Hono<Own>();
const limit: MiddlewareHandler = rateLimit({ policy: "100/m" });
const plans = {
  free: createLimiter({ policy: tokenBucket("1/m") }),
  paid: createLimiter({ policy: tokenBucket("9/m") }),
};

plain.use(limit);
plain.use(rateLimit({ policies: ["10/s", "1000/h"] }), rateLimit({ policy: "5/m" }));
app.use(limit);
app.use("/api/*", rateLimit({ policy: "5/m" }));
app.get("/users/:id", rateLimit({ policy: "5/m" }), (c) => c.text(`${c.req.param("id")} ${c.get("user")}`));
app.on(["PUT", "DELETE"], "/things", rateLimit({ policy: "5/m" }), (c) => c.json({}));
app.route("/inner", new Hono<Own>().use(rateLimit({ policy: "5/m" })));
export const handlers = createFactory<Own>().createHandlers(rateLimit({ policy: "5/m" }), (c) => c.text(c.env.SECRET));

// The decision is a typed variable of the context, beside those of the app.
app.get("/decision", rateLimit({ policy: "5/m" }), (c) => {
  const decision: Decision | undefined = c.get("rateLimit") ?? getRateLimit(c);
  return c.json({ remaining: decision?.remaining, user: c.get("user"), secret: c.env.SECRET });
});
app.use(
  rateLimit({
    limits: [
      { limiter: plans.free },
      {
        limiter: (c) => (c.req.path === "/" ? plans.paid : undefined),
        key: (c: Context<Own>) => c.get("user"),
        cost: 2,
      },
    ],
  }),
);

// The response type of a handler is inferred with a limiter before it.
const typed = new Hono().get("/typed", rateLimit({ policy: "5/m" }), (c) => c.json({ id: 1 }));
export type Typed = typeof typed;

app.use(
  rateLimit({
    limiter: (c) => plans[c.req.header("X-Plan") === "paid" ? "paid" : "free"],
    key: (c: Context<Own>) => `${c.get("user")}:${c.req.path}:${c.env.SECRET}`,
    cost: async (c) => (await c.req.text()).length,
    skip: (c) => c.req.routePath === "/health",
    onLimited: ({ args: [c], decision }) => c.json({ policy: decision.policy }),
    onError: (_error, c) => (c.req.method === "GET" ? "allow" : "deny"),
  }),
);

// @ts-expect-error a header may be missing
rateLimit({ policy: "5/m", key: (c) => c.req.header("X-User") });
// @ts-expect-error not a rate
rateLimit({ policy: "fast" });
// @ts-expect-error no such option
rateLimit({ policy: "5/m", windowMs: 60_000 });
// @ts-expect-error a store belongs to a limiter
rateLimit({ policy: "5/m", store: {} });
// @ts-expect-error no such platform
rateLimit({ policy: "5/m", identity: "cloudfare" });
// @ts-expect-error no such draft
rateLimit({ policy: "5/m", headers: "draft-5" });
// @ts-expect-error a context of Hono has no such property
rateLimit({ policy: "5/m", key: (c) => c.ip });
// @ts-expect-error onLimited returns a response
rateLimit({ policy: "5/m", onLimited: () => "slow down" });
// @ts-expect-error options are required
rateLimit();

// Callbacks have the context of the app, by its environment or by the app that uses the middleware.
interface Session {
  Variables: { user: { readonly id: string } };
  Bindings: { readonly SECRET: string };
}
rateLimit<Session>({ policy: "5/m", key: (c) => `${c.get("user").id}:${c.var.user.id}:${c.env.SECRET}` });
new Hono<Session>().use(rateLimit<Session>({ policy: "5/m", key: (c) => c.get("user").id }));
new Hono<Session>().use(rateLimit({ policy: "5/m", key: (c) => c.get("user").id }));
// @ts-expect-error the user has no such member
rateLimit<Session>({ policy: "5/m", key: (c) => c.get("user").idd });
// @ts-expect-error no such variable
rateLimit<Session>({ policy: "5/m", skip: (c) => c.get("usr") === undefined });
// @ts-expect-error no such binding
rateLimit<Session>({ policy: "5/m", key: (c) => c.env.SECERT });
// @ts-expect-error the user has no such member, also in limits and onLimited
rateLimit<Session>({ policy: "5/m", onLimited: ({ args: [c] }) => c.text(c.get("user").idd) });
