/** `rateLimit` in every position of Fastify, type-checked only. */
import { type FastifyPluginAsync, fastify, type onRequestHookHandler } from "fastify";
import { createLimiter, tokenBucket } from "sluice";
import { getRateLimit, rateLimit, rateLimitPlugin } from "sluice/fastify";

declare module "fastify" {
  interface FastifyRequest {
    /** A property that an app adds for its users. */
    user?: { readonly id: string; readonly plan: "free" | "paid" };
  }
}

const app = fastify({ logger: false });
const limit: onRequestHookHandler = rateLimit({ policy: "100/m" });
const plans = {
  free: createLimiter({ policy: tokenBucket("1/m") }),
  paid: createLimiter({ policy: tokenBucket("9/m") }),
};

app.addHook("onRequest", limit);
app.addHook("preHandler", rateLimit({ policies: ["10/s", "1000/h"] }));
app.get("/one", { onRequest: rateLimit({ policy: "5/m" }) }, async () => "ok");
app.get("/more", { onRequest: [rateLimit({ policy: "5/m" }), rateLimit({ policy: "50/h" })] }, async () => "ok");
app.get<{ Params: { id: string }; Querystring: { q: number } }>(
  "/users/:id",
  { preHandler: rateLimit({ policy: "5/m" }) },
  async ({ params: { id }, query: { q } }) => id.repeat(q),
);
app.route({ method: "POST", url: "/login", preValidation: rateLimit({ policy: "5/m" }), handler: async () => "ok" });
export const plugin: FastifyPluginAsync = async (scope) => {
  scope.addHook("onRequest", rateLimit({ policy: "5/m" }));
};

// All members of the request, including those that the app has added.
rateLimit({ policy: "5/m", key: (request) => request.ip });
app.addHook(
  "onRequest",
  rateLimit({
    limiter: (request) => plans[request.user?.plan ?? "free"],
    key: (request, reply) => `${request.user?.id ?? request.ip}:${request.routeOptions.url}:${reply.elapsedTime}`,
    cost: async (request) => (request.is404 ? 5 : 1),
    skip: (request) => request.url === "/health",
    onLimited: ({ args: [request, reply], decision }) => reply.send({ id: request.id, policy: decision.policy }),
    onError: (error, request) => {
      request.log.error(error);
      return "deny";
    },
  }),
);
rateLimit({ policy: "5/m", onLimited: ({ key }) => ({ error: key }) });

rateLimit({
  limits: [
    { limiter: plans.free },
    {
      limiter: async (request) => (request.method === "POST" ? plans.paid : undefined),
      key: (request) => request.user?.id ?? "none",
      cost: 2,
    },
  ],
});
export const remainingOf = (...[request]: Parameters<typeof getRateLimit>): number | undefined =>
  getRateLimit(request)?.remaining;
// @ts-expect-error a third-party limiter can't be charged with others
rateLimit({ limits: [{ limiter: { consume: async () => ({ allowed: true }) } }] });
// @ts-expect-error a key is a string
rateLimit({ policy: "5/m", key: (request) => request.user });
// @ts-expect-error not a rate
rateLimit({ policy: "fast" });
// @ts-expect-error no such option
rateLimit({ policy: "5/m", timeWindow: "1m" });
// @ts-expect-error a store belongs to a limiter
rateLimit({ policy: "5/m", store: {} });
// @ts-expect-error no such platform
rateLimit({ policy: "5/m", identity: "cloudfare" });
// @ts-expect-error no such draft
rateLimit({ policy: "5/m", headers: "draft-5" });
// @ts-expect-error a request of Fastify has no such property
rateLimit({ policy: "5/m", key: (request) => request.remoteAddress });
// @ts-expect-error options are required
rateLimit();

// The plugin, with options for routes.
app.register(rateLimitPlugin, {
  policy: "100/m",
  key: (request) => request.user?.id ?? request.ip,
  hook: "preHandler",
});
app.register(rateLimitPlugin, { global: false });
app.get("/own", { config: { rateLimit: { policy: "5/m", cost: (request) => request.url.length } } }, async () => "ok");
app.get("/none", { config: { rateLimit: false } }, async () => "ok");
app.get("/added", { preHandler: app.sluice({ policy: "5/m" }), onRequest: app.sluice() }, async () => "ok");
// @ts-expect-error not a rate
app.register(rateLimitPlugin, { policy: "fast" });
// @ts-expect-error no such hook
app.register(rateLimitPlugin, { policy: "5/m", hook: "onSend" });
// @ts-expect-error not a rate
app.get("/wrong", { config: { rateLimit: { policy: "fast" } } }, async () => "ok");
// @ts-expect-error not a rate
app.sluice({ policy: "fast" });
