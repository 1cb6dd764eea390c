/** `sluice/next` in a built app of Next.js 16. */
import { fileURLToPath } from "node:url";
import { middlewareSuite } from "sluice/testing";
import { beforeAll, describe, it } from "vitest";
import { FETCH_WITHOUT, NODE_REQUEST_WITHOUT } from "../../test/middleware/mount.ts";
import { build, type Environment, installPacked, node24, startServer } from "../built-app.ts";
import { asAddress, withFrontProxy } from "../front-proxy.ts";
import { ruleSpellings } from "../rule-spellings.ts";

const here = fileURLToPath(new URL(".", import.meta.url));
const NEXT = "node_modules/next/dist/bin/next";
const env = { NEXT_TELEMETRY_DISABLED: "1" };

beforeAll(async () => {
  installPacked(here);
  await build(node24, [NEXT, "build"], here, env);
});

const serve = (more: Environment) =>
  startServer(node24, [NEXT, "start", "-H", "127.0.0.1", "-p", "$PORT"], here, { ...env, ...more });
const start = async (more: Environment = {}) => withFrontProxy(await serve(more));

const NEXT_WITHOUT = { ...FETCH_WITHOUT, ...NODE_REQUEST_WITHOUT };

middlewareSuite(
  "Next.js 16 route handlers, memory",
  { start: () => start(), as: asAddress, without: NEXT_WITHOUT },
  { describe, it },
);

/** A proxy continues a request before the route responds. */
const EARLY = "a proxy ends before the response, so it refuses refunds, holds and concurrency limits";
const PROXY_WITHOUT = {
  ...FETCH_WITHOUT,
  "refunds failed requests once with refundIf: failed": EARLY,
  "refunds successful requests with refundIf: succeeded, as for a login": EARLY,
  "counts redirects as failures, and refunds what the handler reports (issue 30)": EARLY,
  "does not refund a failed request whose client disconnected early (issue 13)": EARLY,
  "limits concurrent requests, and releases one when its response ends": EARLY,
  "releases a concurrent request when its handler throws": EARLY,
  "releases a concurrent request when its client disconnects": EARLY,
  "releases the slots of pipelined requests whose client disconnects": EARLY,
  "releases the slot of a client that disconnects while nobody reads its request": EARLY,
  "releases the slot of such a client also if its response has begun": EARLY,
  "keeps the slot of a client that has disconnected until its handler ends": EARLY,
  "charges the cost that a handler reports after its client has disconnected": EARLY,
  "holds an estimate, and charges the cost that the handler reports": EARLY,
  "charges what hold.actual returns, and the estimate without it": EARLY,
  "refunds every limit of a request": EARLY,
  "refunds the charges of a rule as it says": EARLY,
  "holds the amount of a fact, and charges what the handler reports": EARLY,
  "returns the decision of the last middleware that a request passed from getRateLimit":
    "a proxy and a route handler get different requests",
  "lets requests pass that only a flagged limit or a shadow rule denies":
    "a proxy and a route handler get different requests",
  "omits its fields where another client could read them": "the response is not known in a proxy",
  "sets a clearance on every response, and adds its cookie to those of the handler":
    "Next.js adds the cookies of a proxy before those of the route",
  "runs a request with an idempotency key once, and replays its response without a charge":
    "a proxy counts before the route handler is idempotent",
  "rejects another payload with the same idempotency key, and malformed keys":
    "a proxy counts before the route handler is idempotent",
  "stores no response that means try again: a 429, a 503 or a challenge":
    "a proxy counts before the route handler is idempotent",
  "warns once if idempotent is mounted behind rateLimit, which charges replays":
    "the decision of a proxy is not available in a route handler",
};

middlewareSuite(
  "Next.js 16 proxy, memory",
  { start: () => start({ PROXIED: "1" }), as: asAddress, without: PROXY_WITHOUT },
  { describe, it },
);

ruleSpellings("Next.js 16 proxy", ({ rules }) => serve({ RULES: JSON.stringify(rules.data) }));
