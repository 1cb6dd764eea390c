/** `rateLimit` in every position of Node's own servers, type-checked only. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTls } from "node:https";
import { createLimiter, tokenBucket } from "sluice";
import { getRateLimit, rateLimit } from "sluice/node";

/** A property that an app adds for its users. */
interface Known extends IncomingMessage {
  readonly user?: { readonly id: string };
}

const limit = rateLimit({ policy: "100/m" });
const plans = {
  free: createLimiter({ policy: tokenBucket("1/m") }),
  paid: createLimiter({ policy: tokenBucket("9/m") }),
};

createServer(limit((request, response) => void response.end(request.url)));
createServer({ keepAlive: true }).on("request", rateLimit({ policies: ["10/s", "1000/h"] })(handler));
createTls({}, limit(handler));

function handler(_request: IncomingMessage, response: ServerResponse): void {
  response.end();
}

rateLimit({
  limiter: (request) => plans[request.headers["x-plan"] === "paid" ? "paid" : "free"],
  key: (request, response) => `${request.socket.remotePort}:${request.url}:${response.statusCode}`,
  cost: async (request) => (request.method === "POST" ? 5 : 1),
  skip: (request) => request.url === "/health",
  onLimited: ({ args: [request, response], decision }) => {
    response.setHeader("Content-Type", "text/plain").end(`${request.url} ${decision.policy}`);
  },
  onError: (_error, request) => (request.complete ? "allow" : "deny"),
});
rateLimit({ policy: "5/m", key: (request) => (request as Known).user?.id ?? "nobody" });

rateLimit({
  limits: [
    { limiter: plans.free },
    {
      limiter: async (request) => (request.method === "POST" ? plans.paid : undefined),
      key: (request) => request.url ?? "none",
      cost: 2,
    },
  ],
});
export const remainingOf = (...[request]: Parameters<typeof getRateLimit>): number | undefined =>
  getRateLimit(request)?.remaining;
// @ts-expect-error a third-party limiter can't be charged with others
rateLimit({ limits: [{ limiter: { consume: async () => ({ allowed: true }) } }] });
// @ts-expect-error a socket that is closed has no address
rateLimit({ policy: "5/m", key: (request) => request.socket.remoteAddress });
// @ts-expect-error not a rate
rateLimit({ policy: "fast" });
// @ts-expect-error no such option
rateLimit({ policy: "5/m", max: 5 });
// @ts-expect-error a store belongs to a limiter
rateLimit({ policy: "5/m", store: {} });
// @ts-expect-error no such platform
rateLimit({ policy: "5/m", identity: "cloudfare" });
// @ts-expect-error a request of Node has no such property
rateLimit({ policy: "5/m", key: (request) => request.ip });
// @ts-expect-error it takes a handler and is not one
createServer(rateLimit({ policy: "5/m" }));
// @ts-expect-error options are required
rateLimit();
