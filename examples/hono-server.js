/**
 * Hono with two limits: one for everything by address, and one for wrong passwords. This file runs it on Node; on
 * Workers it would be `export default app`, with `identity: "cloudflare"`.
 * PORT=8787 node examples/hono-server.js
 */
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { cors } from "hono/cors";
import { slidingLog, tokenBucket } from "sluice";
import { rateLimit } from "sluice/hono";

const app = new Hono();

// What must always answer comes first.
app.get("/health", (c) => c.text("ok\n"));

// CORS before the limiter, so that scripts of other origins can read a denial.
app.use(cors());
app.use(rateLimit({ policy: tokenBucket("5/s", { burst: 10, name: "api" }) }));

// Only wrong passwords count: what succeeds is given back.
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
