/** Types of `abuse` in `rateLimit`: the arguments of functions are those of the server. Checked by `npm run types`. */
import { type Abuse, abuse, userAgentBots } from "sluice/abuse";
import { rateLimit as limitExpress } from "sluice/express";
import { rateLimit as limitFastify } from "sluice/fastify";
import { rateLimit as limitFetch } from "sluice/fetch";
import { rateLimit as limitHono } from "sluice/hono";
import { rateLimit as limitNode } from "sluice/node";

const policy = "1/s";

limitExpress({
  policy,
  abuse: abuse({ deny: [(request, response) => request.path === "/x" && response.headersSent] }),
});
limitFastify({ policy, abuse: abuse({ allow: [(request) => request.routeOptions.url === "/x"] }) });
limitFetch({ policy, abuse: abuse({ deny: [(request) => request.headers.has("x")] }) });
limitHono({ policy, abuse: abuse({ deny: [(context) => context.req.path === "/x"] }) });
limitHono({ policy, abuse: abuse({ penalty: {} }) });
limitNode({ policy, abuse: abuse({ deny: [(request) => request.url === "/x"] }) });

// Without functions, one object serves every server.
const shared = abuse({ penalty: {}, signals: [userAgentBots()] });
limitExpress({ policy, abuse: shared });
limitHono({ policy, abuse: shared });
limitFetch({ policy, abuse: shared });

// With a type, its functions are checked.
declare const ofFetch: Abuse<readonly [Request]>;
limitFetch({ policy, abuse: ofFetch });
// @ts-expect-error a request of Express is not a Request
limitExpress({ policy, abuse: ofFetch });

// @ts-expect-error not an identity option
abuse({ penalty: { by: "ip" } });
// @ts-expect-error a list is made by ipList()
abuse({ deny: ["10.0.0.0/8"] });
// @ts-expect-error unknown bot
abuse({ signals: [() => ({ bot: "maybe" })] });
