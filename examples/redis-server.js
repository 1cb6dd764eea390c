/**
 * An HTTP API whose processes share their limits in Redis: a burst limit and a daily quota per IP address.
 * Run it with: node examples/run.js redis-server
 * It starts a temporary Redis unless REDIS_URL is set.
 */
import { createServer } from "node:http";
import { Redis } from "ioredis";
import { combine, createLimiter, fixedWindow, tokenBucket } from "sluice";
import { rateLimitHeaders, tooManyRequests } from "sluice/http";
import { redisStore } from "sluice/redis";

const redis = new Redis(process.env.REDIS_URL ?? "redis://127.0.0.1:6379", { autoResendUnfulfilledCommands: false });
// ioredis emits an error for every attempt to connect. The limiter emits one event per outage and one per recovery.
redis.on("error", () => {});

const store = redisStore(redis);
const burst = createLimiter({
  policy: tokenBucket("5/s", { burst: 10, name: "burst" }),
  store,
  onStoreError: "closed",
  onEvent: log,
});
// One listener is enough, because both limiters use the same store.
const daily = createLimiter({ policy: fixedWindow("5000/d", { name: "daily" }), store, onStoreError: "closed" });
const limiter = combine([burst, daily]);
const policies = limiter.getPolicies?.() ?? limiter.getPolicy();

/** @type {import("sluice").OnEvent} */
function log(event) {
  if (event.type === "store-up") console.log(`${event.type}: it was down for ${event.downMs} ms`);
  else if (event.type === "warning") console.log(`${event.type}: ${event.message}`);
  else if ("error" in event) console.log(`${event.type}: ${event.error.message}`);
}

const server = createServer(async (request, response) => {
  // The address of the socket, which a client can't forge. Behind a proxy, it is the proxy's.
  const decision = await limiter.consume(`ip:${request.socket.remoteAddress ?? "unidentified"}`);
  if (!decision.allowed) {
    // 429, or 503 if the store is unavailable.
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

// Close the server first, so that it finishes the requests in flight, then the limiters, the store and the client.
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
