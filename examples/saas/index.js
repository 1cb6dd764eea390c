/**
 * Serves an API with 50 endpoints, three plans and one file of rate limits, on Redis.
 * Run it with: node examples/run.js saas
 */
import { env } from "node:process";
import { Redis } from "ioredis";
import { redisStore } from "sluice/redis";
import { createApp } from "./app.js";

const redis = new Redis(env.REDIS_URL ?? "redis://127.0.0.1:6379");
const { app, rules } = createApp({ store: redisStore(redis) });
const server = app.listen(Number(env.PORT ?? 8787), "127.0.0.1", () => {
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  const url = `http://127.0.0.1:${port}`;
  console.log(`${rules.explain("POST", "/v1/reports", { tenant: "globex", plan: "free" })}
${url}
Try a report on the free plan twice, which is more than its budget per minute allows:
  curl -i -X POST -H "X-Session: ada globex free" ${url}/v1/reports`);
});
process.once("SIGINT", () => server.close(() => redis.disconnect()));
