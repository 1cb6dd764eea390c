/**
 * A fetch handler (`Request` to `Response`) with two limits: one per IP address for all routes, and one for failed logins.
 * Bun and Deno serve such handlers; on Node, @hono/node-server does.
 * Run it with: node examples/run.js fetch-server
 */
import { serve } from "@hono/node-server";
import { slidingLog, tokenBucket } from "sluice";
import { rateLimit } from "sluice/fetch";

/** @param {unknown} error */
const onError = (error) => console.error(error);
/** @param {Request} request */
const pathOf = (request) => new URL(request.url).pathname;

const everything = rateLimit({
  policy: tokenBucket("5/s", { burst: 10, name: "api" }),
  skip: (request) => pathOf(request) === "/health",
  onError,
});
// Counts failed logins only: successful ones are refunded.
const logins = rateLimit({ policy: slidingLog("3/15m", { name: "login" }), refundIf: "succeeded", onError });

// Pass the runtime's own arguments on: they contain the client's IP address.
const login = logins(async (/** @type {Request} */ request, /** @type {unknown[]} */ ..._runtime) => {
  const { password } = await request.json().catch(() => ({}));
  return password === "secret" ? Response.json({ welcome: true }) : Response.json({ welcome: false }, { status: 401 });
});

const fetch = everything(async (/** @type {Request} */ request, /** @type {unknown[]} */ ...runtime) => {
  if (pathOf(request) === "/login" && request.method === "POST") return login(request, ...runtime);
  return pathOf(request) === "/health" ? new Response("ok\n") : Response.json({ hello: "world" });
});

const server = serve({ fetch, port: Number(process.env.PORT ?? 8787), hostname: "127.0.0.1" }, ({ port }) =>
  console.log(`sluice guards http://127.0.0.1:${port}/ with fetch`),
);

process.once("SIGINT", () => void server.close());
