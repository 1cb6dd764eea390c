/**
 * A handler from `Request` to `Response` with two limits, one inside of the other. On Bun and Deno nothing else is needed
 * to serve it; on Node a package does.
 * PORT=8787 node examples/fetch-server.js
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
// Only wrong passwords count: what succeeds is given back.
const logins = rateLimit({ policy: slidingLog("3/15m", { name: "login" }), refundIf: "succeeded", onError });

// The runtime's own arguments are handed on, because they tell the address of the client.
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
