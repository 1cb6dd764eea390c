/** `rateLimit` in every position of Express, type-checked with Express 4 and 5. */
import express, { type ErrorRequestHandler, type RequestHandler, type Router } from "express";
import { createLimiter, tokenBucket } from "sluice";
import { getRateLimit, rateLimit } from "sluice/express";

declare global {
  namespace Express {
    interface Request {
      /** A property that an app adds for its users. */
      user?: { readonly id: string; readonly plan: "free" | "paid" };
    }
  }
}

const app = express();
const limit: RequestHandler = rateLimit({ policy: "100/m" });
const plans = {
  free: createLimiter({ policy: tokenBucket("1/m") }),
  paid: createLimiter({ policy: tokenBucket("9/m") }),
};

app.use(limit);
app.use(rateLimit({ policies: ["10/s", "1000/h"] }));
app.use("/api", rateLimit({ policy: "5/m" }), (_request, response) => void response.json({}));
app.get("/users/:id", rateLimit({ policy: "5/m" }), (request, response) => void response.send(request.params.id));
app
  .route("/login")
  .post(rateLimit({ policy: "5/m", refundIf: "succeeded" }), (_request, response) => void response.end());
export const router: Router = express.Router().use(rateLimit({ policy: "5/m" }));
export const all: (RequestHandler | ErrorRequestHandler)[] = [rateLimit({ policy: "5/m" })];

app.use(
  rateLimit({
    // All members of the request, including those that the app has added.
    limiter: (request) => plans[request.user?.plan ?? "free"],
    key: (request, response) => `${request.user?.id ?? request.ip}:${request.path}:${response.locals.tenant}`,
    cost: async (request) => (request.accepts("html") ? 1 : Number(request.query.cost)),
    skip: (request) => request.originalUrl === "/health",
    onLimited: ({ args: [request, response], decision }) => {
      response.format({ "text/plain": () => response.send(`${request.hostname} ${decision.policy}`) });
    },
    onError: (_error, request) => (request.secure ? "deny" : "allow"),
  }),
);

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
// @ts-expect-error request.ip is undefined after a disconnect
rateLimit({ policy: "5/m", key: (request) => request.ip });
// @ts-expect-error not a rate
rateLimit({ policy: "fast" });
// @ts-expect-error no such option
rateLimit({ policy: "5/m", max: 5 });
// @ts-expect-error a store belongs to a limiter
rateLimit({ policy: "5/m", store: {} });
// @ts-expect-error no such platform
rateLimit({ policy: "5/m", identity: "cloudfare" });
// @ts-expect-error no such draft
rateLimit({ policy: "5/m", headers: "draft-5" });
// @ts-expect-error a request of Express has no such property
rateLimit({ policy: "5/m", key: (request) => request.remoteAddress });
// @ts-expect-error options are required
rateLimit();
