/**
 * An API whose rate limits are monitored: metrics for Prometheus at /metrics, and a JSON log line per denied request.
 * Run it with: node examples/run.js monitoring
 */
import { env } from "node:process";
import express from "express";
import { Redis } from "ioredis";
import { Registry } from "prom-client";
import { rateLimit } from "sluice/express";
import { createObserver, jsonLog } from "sluice/observe";
import { prometheusMetrics } from "sluice/prometheus";
import { redisStore } from "sluice/redis";
import { defineRules } from "sluice/rules";

const redis = new Redis(env.REDIS_URL ?? "redis://127.0.0.1:6379", { autoResendUnfulfilledCommands: false });
redis.on("error", () => {});

// One observer for the whole process. Share OBSERVER_SECRET to get equal tags in the logs of all processes.
const observer = createObserver({
  log: jsonLog(console.log),
  ...(env.OBSERVER_SECRET && { secret: env.OBSERVER_SECRET }),
});
const register = new Registry();
prometheusMetrics(observer, { register });

const rules = defineRules(
  {
    rules: [
      { name: "search", match: "GET /search", limits: { ip: "200/s", tenant: "5/s burst 10" } },
      { name: "report", match: "POST /reports", limits: { ip: "200/s", tenant: "20/m burst 5" } },
      // Not enforced yet: the panel "would deny" shows what it would deny.
      { name: "export", match: "GET /export", mode: "shadow", limits: { ip: "200/s", tenant: "10/m burst 5" } },
    ],
    fallback: { limits: { ip: "10/s burst 50" } },
  },
  { store: redisStore(redis) },
);

const app = express();
// Before the limits. In production, keep it from the public: listen on another port, or check a token.
app.get("/metrics", async (_request, response) => {
  response.set("Content-Type", register.contentType).send(await register.metrics());
});
app.use(rateLimit({ rules, facts: { tenant: (request) => request.get("x-tenant") }, observer }));
app.use((_request, response) => {
  response.json({ hello: "world" });
});

// Containers reach the host only through an address that is not loopback, so that Docker needs HOST=0.0.0.0.
const server = app.listen(Number(env.PORT ?? 8787), env.HOST ?? "127.0.0.1", () => {
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  const url = `http://127.0.0.1:${port}`;
  console.log(`${url}/ with metrics at ${url}/metrics
Send requests of four tenants, one of them far too many: node examples/monitoring/traffic.js ${url}`);
});
process.once("SIGINT", () => {
  server.close(() => redis.disconnect());
  server.closeAllConnections();
});
