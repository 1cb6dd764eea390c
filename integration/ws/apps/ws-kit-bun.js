/** Routers of ws-kit on real Bun. Tells their ports on the first line, and on each that follows what a limiter decided. */
import { createBunHandler } from "@ws-kit/bun";
import { rateLimit as theirs } from "@ws-kit/rate-limit";
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
const options = (limiter) => ({ limiter: told(limiter), key: keyPerUser, cost: costOf });
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

/** The same limiter, which tells its decisions. */
function told(limiter) {
  const tell = (decision) => {
    console.log(JSON.stringify(decision));
    return decision;
  };
  const { consumeSync } = limiter;
  return {
    consume: async (key, cost) => tell(await limiter.consume(key, cost)),
    ...(consumeSync && { consumeSync: (key, cost) => tell(limiter.consumeSync(key, cost)) }),
    getPolicy: () => limiter.getPolicy(),
  };
}

function serve(limit, guarded = (handlers) => handlers) {
  const handlers = createBunHandler(routerWith(limit), { authenticate: ({ url }) => dataOf(url) });
  return Bun.serve({ hostname: "127.0.0.1", port: 0, ...guarded(handlers) }).port;
}

/** In place of ws-kit's `fetch`, which upgrades by itself: whoever does needs to give its handlers a `clientId`. */
function upgrade(request, server) {
  return admission.upgrade(request, server, { data: { clientId: crypto.randomUUID(), ...dataOf(request.url) } });
}

console.log(
  JSON.stringify({
    memory: serve(rateLimit(options(memoryRateLimiter(policy("memory"))))),
    redis: serve(rateLimit(options(redisRateLimiter(client, policy("redis"), failure)))),
    theirsMemory: serve(theirs(options(memoryRateLimiter(policy("theirs"))))),
    theirsRedis: serve(theirs(options(redisRateLimiter(client, policy("theirs"), failure)))),
    unguarded: serve(unlimited),
    guarded: serve(unlimited, ({ fetch, websocket }) => ({ fetch, websocket: guard.websocket(websocket) })),
    admitted: serve(unlimited, ({ websocket }) => ({ fetch: upgrade, websocket: admission.websocket(websocket) })),
  }),
);
// It ends with whoever started it.
process.stdin.on("end", () => process.exit()).resume();
