/** A payment endpoint in one of two processes. It crashes after some payments, before it has responded. */
import { env } from "node:process";
import express from "express";
import { Redis } from "ioredis";
import { getIdempotency, idempotent, rateLimit } from "sluice/express";
import { redisIdempotencyStore, redisRateLimiter } from "sluice/redis";

const redis = new Redis(env.REDIS_URL ?? "redis://127.0.0.1:6379");

const once = idempotent({
  store: redisIdempotencyStore(redis),
  /** Replace this with your authentication. */
  scope: (request) => request.get("x-user"),
  required: true,
  // Short, so that the example ends soon. The default is 30 s.
  lease: "1s",
  deadlineMs: "5s",
  replayLimit: "1000/m",
});

/** Moves the money, once per key: `HSETNX` stands for a row with a primary key in your database. */
async function pay(/** @type {string} */ user, /** @type {string} */ key, /** @type {number} */ amount) {
  const isNew = await redis.hsetnx("example:payments", `${user} ${key}`, amount);
  if (isNew) await redis.hincrby("example:balances", user, -amount);
  return { key, amount };
}

const app = express();
app.use(express.json());
app.post(
  "/payments",
  once,
  rateLimit({ limiter: redisRateLimiter(redis, "1000/m"), key: (request) => request.get("x-user") ?? "unknown" }),
  async (request, response) => {
    const { key = "", attempt = 1 } = getIdempotency(request) ?? {};
    const payment = await pay(request.get("x-user") ?? "", key, request.body.amount);
    // The money has moved, and nobody knows.
    if (attempt === 1 && request.body.amount % 50 === 0) process.kill(process.pid, "SIGKILL");
    response.status(201).json({ ...payment, attempt });
  },
);
const server = app.listen(0, "127.0.0.1", () => {
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  process.send?.(port);
});
process.on("disconnect", () => process.exit());
