/**
 * Hono with two limits: one per IP address for all routes, and one for failed logins. This file runs on Node; on
 * Workers, use `export default app` and `identity: "cloudflare"`.
 * Run it with: node examples/run.js hono-server
 */
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { cors } from "hono/cors";
import { slidingLog, tokenBucket } from "sluice";
import { rateLimit } from "sluice/hono";

const app = new Hono();

// Before the limiter: health checks must never be rejected.
app.get("/health", (c) => c.text("ok\n"));

// CORS before the limiter, so that scripts of other origins can read a 429 response.
app.use(cors());
app.use(rateLimit({ policy: tokenBucket("5/s", { burst: 10, name: "api" }) }));

// Counts failed logins only: successful ones are refunded.
const logins = rateLimit({ policy: slidingLog("3/15m", { name: "login" }), refundIf: "succeeded" });
app.post("/login", logins, async (c) => {
  const { password } = await c.req.json().catch(() => ({}));
  return password === "secret" ? c.json({ welcome: true }) : c.json({ welcome: false }, 401);
});

app.get("/", (c) => c.json({ hello: "world" }));

const server = serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 8787), hostname: "127.0.0.1" }, ({ port }) =>
  console.log(`sluice guards http://127.0.0.1:${port}/ with Hono`),
);

process.once("SIGINT", () => void server.close());
