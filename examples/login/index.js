/**
 * Serves a login with limits, challenges, penalties and traps, on Redis.
 * Run it with: node examples/run.js login
 */
import { randomBytes } from "node:crypto";
import { env } from "node:process";
import { Redis } from "ioredis";
import { redisStore } from "sluice/redis";
import { createApp } from "./app.js";
import { startTurnstileStandIn } from "./turnstile-stand-in.js";

const redis = new Redis(env.REDIS_URL ?? "redis://127.0.0.1:6379");
const standIn = await startTurnstileStandIn();
const operatorToken = env.OPERATOR_TOKEN ?? randomBytes(16).toString("hex");
const app = createApp({
  store: redisStore(redis),
  // With Turnstile, these two lines replace the stand-in:
  //   import { turnstile } from "sluice/abuse";
  //   provider: turnstile({ siteKey: env.TURNSTILE_SITE_KEY, secret: env.TURNSTILE_SECRET, hostname: "example.com" }),
  provider: standIn.provider,
  // The same in every process, or clearances of one would not be valid in others.
  clearanceSecret: env.CLEARANCE_SECRET ?? randomBytes(32).toString("hex"),
  operatorToken,
});
const server = app.listen(Number(env.PORT ?? 8787), "127.0.0.1", () => {
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  console.log(`http://127.0.0.1:${port}/
ada@example.com    "analytical engine"   needs a challenge after 3 wrong passwords
grace@example.com  "first compiler"      has the limits of the preset
The trap:  curl -i http://127.0.0.1:${port}/.env
Unblock:   curl -i -X DELETE -H "Authorization: Bearer ${operatorToken}" http://127.0.0.1:${port}/operator/blocks/ip:127.0.0.1`);
});
process.once("SIGINT", () => {
  standIn.close();
  server.close(() => redis.disconnect());
  server.closeAllConnections();
});
