/**
 * The app of docs/migrating/from-rate-limiter-flexible.md after the migration: an API and a login, limited in Redis.
 * Run it with: node examples/run.js migrating/from-rate-limiter-flexible
 */
import { createServer } from "node:http";
import { Redis } from "ioredis";
import { slidingLog, tokenBucket } from "sluice";
import { rateLimitHeaders, tooManyRequests } from "sluice/http";
import { redisRateLimiter } from "sluice/redis";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379", { autoResendUnfulfilledCommands: false });
redis.on("error", (error) => console.error(error.message));

const api = redisRateLimiter(redis, tokenBucket("10/m", { name: "api" }));
const logins = redisRateLimiter(redis, slidingLog("3/15m", { name: "login" }), { onStoreError: "closed" });

const server = createServer(async (request, response) => {
  try {
    if (request.url === "/login") await logIn(request, response);
    else await report(request, response);
  } catch (error) {
    // A denial is not an error: only misuse and failures get here.
    console.error(error);
    response.writeHead(500).end("the limiter failed\n");
  }
});

/** @type {(request: import("node:http").IncomingMessage, response: import("node:http").ServerResponse) => Promise<void>} */
async function logIn(request, response) {
  const [, basic = ""] = (request.headers.authorization ?? "").split(" ");
  const [user, password] = Buffer.from(basic, "base64").toString().split(":");
  const decision = await logins.consume(`account:${user}`);
  if (!decision.allowed) {
    const { status, headers, body } = tooManyRequests(decision, logins.getPolicy(), { accept: request.headers.accept });
    response.writeHead(status, headers).end(body);
  } else if (password !== "secret") {
    response.writeHead(401).end("wrong password\n");
  } else {
    // Refund only this attempt: a reset would also forgive the wrong ones of an attacker.
    await logins.refund(`account:${user}`, 1, decision);
    response.end("welcome\n");
  }
}

/** @type {typeof logIn} */
async function report(request, response) {
  const decision = await api.consume(`ip:${request.socket.remoteAddress}`, request.url === "/export" ? 5 : 1);
  if (!decision.allowed) {
    const { status, headers, body } = tooManyRequests(decision, api.getPolicy(), { accept: request.headers.accept });
    response.writeHead(status, headers).end(body);
  } else {
    response.writeHead(200, rateLimitHeaders(decision, api.getPolicy())).end("report\n");
  }
}

server.listen(Number(process.env.PORT ?? 8787), "127.0.0.1", () => {
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  console.log(`http://127.0.0.1:${port}/`);
});

process.once("SIGINT", () => {
  server.close(() => redis.disconnect());
  server.closeAllConnections();
});
