/**
 * An HTTP API whose limits all of its processes share: a burst and a daily quota for each address, kept in Redis.
 * REDIS_URL=redis://127.0.0.1:6379 PORT=8787 node examples/redis-server.js
 */
import { createServer } from "node:http";
import { Redis } from "ioredis";
import { combine, createLimiter, fixedWindow, tokenBucket } from "sluice";
import { rateLimitHeaders, tooManyRequests } from "sluice/http";
import { redisStore } from "sluice/redis";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379", { autoResendUnfulfilledCommands: false });
// ioredis tells of every attempt to connect; the limiter tells once that the store is down, and once that it is back.
redis.on("error", () => {});

const store = redisStore(redis);
const burst = createLimiter({
  policy: tokenBucket("5/s", { burst: 10, name: "burst" }),
  store,
  onStoreError: "closed",
  onEvent: log,
});
// One listener is enough: both limiters share the store and its fate.
const daily = createLimiter({ policy: fixedWindow("5000/d", { name: "daily" }), store, onStoreError: "closed" });
const limiter = combine([burst, daily]);
const policies = limiter.getPolicies?.() ?? limiter.getPolicy();

/** @type {import("sluice").OnEvent} */
function log(event) {
  if (event.type === "store-up") console.log(`${event.type}: it was down for ${event.downMs} ms`);
  else if (event.type === "warning") console.log(`${event.type}: ${event.message}`);
  else console.log(`${event.type}: ${event.error.message}`);
}

const server = createServer(async (request, response) => {
  // The socket's peer is the only address that a client can't write itself.
  const decision = await limiter.consume(`ip:${request.socket.remoteAddress ?? "unidentified"}`);
  if (!decision.allowed) {
    // 429, or 503 when the decision is `unavailable`: then the client has done nothing wrong.
    const { status, headers, body } = tooManyRequests(decision, policies, { accept: request.headers.accept });
    response.writeHead(status, headers).end(body);
    return;
  }
  response.writeHead(200, { ...rateLimitHeaders(decision, policies), "Content-Type": "application/json" });
  response.end(`${JSON.stringify({ hello: "world", remaining: decision.remaining })}\n`);
});

server.listen(Number(process.env.PORT ?? 8787), "127.0.0.1", () => {
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  console.log(`sluice guards http://127.0.0.1:${port}/ with Redis`);
});

// First the server, which answers what has come in; then what it uses.
const close = () => {
  server.close(async () => {
    for (const one of [limiter, burst, daily]) await one.dispose();
    await store.dispose();
    redis.disconnect();
  });
  server.closeIdleConnections();
};
process.once("SIGINT", close);
process.once("SIGTERM", close);
