/** ws-kit routers on Bun. Prints their ports on the first line, and then one decision of a limiter per line. */
import { createBunHandler } from "@ws-kit/bun";
import { rateLimit as wsKitRateLimit } from "@ws-kit/rate-limit";
import { Redis } from "ioredis";
import { memoryRateLimiter } from "../../../dist/index.js";
import { redisRateLimiter } from "../../../dist/redis.js";
import { jsonType, keyPerUser } from "../../../dist/ws.js";
import { guardBun } from "../../../dist/ws-bun.js";
import { rateLimit } from "../../../dist/ws-kit.js";
import { costOf, dataOf, routerWith, TYPES } from "./ws-kit-router.js";

const client = new Redis(process.env.REDIS_URL);
const failure = { onStoreError: "throw", deadlineMs: "20s" };
const policy = (name) => ({ capacity: 3, tokensPerSecond: 1, name });
const options = (limiter) => ({ limiter: logged(limiter), key: keyPerUser, cost: costOf });
const unlimited = (_context, next) => next();
const guard = guardBun({
  connection: { capacity: 5, tokensPerSecond: "1/h" },
  heartbeat: { capacity: 2, tokensPerSecond: "1/h" },
  typeOf: jsonType(),
  types: TYPES,
  heartbeats: ["__heartbeat"],
  maxBytes: 1000,
  onExceeded: ({ type }) => (type === "payload" ? "close" : "send"),
});

const admission = guardBun({ maxOpenPerAddress: 1 });

/** Wraps a limiter to print its decisions. */
function logged(limiter) {
  const log = (decision) => {
    console.log(JSON.stringify(decision));
    return decision;
  };
  const { consumeSync } = limiter;
  return {
    consume: async (key, cost) => log(await limiter.consume(key, cost)),
    ...(consumeSync && { consumeSync: (key, cost) => log(limiter.consumeSync(key, cost)) }),
    getPolicy: () => limiter.getPolicy(),
  };
}

function serve(limit, guarded = (handlers) => handlers) {
  const handlers = createBunHandler(routerWith(limit), { authenticate: ({ url }) => dataOf(url) });
  return Bun.serve({ hostname: "127.0.0.1", port: 0, ...guarded(handlers) }).port;
}

/** Replaces ws-kit's `fetch`. The handlers need a `clientId` in the data, which ws-kit's upgrade would add. */
function upgrade(request, server) {
  return admission.upgrade(request, server, { data: { clientId: crypto.randomUUID(), ...dataOf(request.url) } });
}

console.log(
  JSON.stringify({
    memory: serve(rateLimit(options(memoryRateLimiter(policy("memory"))))),
    redis: serve(rateLimit(options(redisRateLimiter(client, policy("redis"), failure)))),
    wsKitMemory: serve(wsKitRateLimit(options(memoryRateLimiter(policy("ws-kit"))))),
    wsKitRedis: serve(wsKitRateLimit(options(redisRateLimiter(client, policy("ws-kit"), failure)))),
    closing: serve(rateLimit({ limiter: memoryRateLimiter(policy("closing")), onExceeded: "close" })),
    unguarded: serve(unlimited),
    guarded: serve(unlimited, ({ fetch, websocket }) => ({ fetch, websocket: guard.websocket(websocket) })),
    admitted: serve(unlimited, ({ websocket }) => ({ fetch: upgrade, websocket: admission.websocket(websocket) })),
  }),
);
// Exit with the parent process.
process.stdin.on("end", () => process.exit()).resume();
