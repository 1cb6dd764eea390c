/**
 * A payment server: `idempotent` around `rateLimit` on one Redis, or in memory. Its effect is a counter in Redis. It kills
 * itself, or blocks its event loop, where the header x-fault says so.
 */
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { memoryIdempotencyStore } from "../dist/idempotency.js";
import { idempotent, rateLimit } from "../dist/node.js";
import { redisIdempotencyStore, redisRateLimiter } from "../dist/redis.js";

const { redisPort, isInMemory, lease, wait, handlerMs, policy } = JSON.parse(process.argv[2] ?? "{}");
const redis = new Redis(redisPort);
const inner = isInMemory ? memoryIdempotencyStore() : redisIdempotencyStore(redis);
const limiter = redisRateLimiter(redis, policy, { onStoreError: "throw", deadlineMs: "20s" });
const die = () => process.kill(process.pid, "SIGKILL");
const faultOf = (/** @type {import("node:http").IncomingMessage} */ { headers }) => headers["x-fault"];

/** Ids of keys whose response must not be stored. */
const doomed = new Set();
const store = {
  begin: (claim) => inner.begin(claim),
  read: (...args) => inner.read(...args),
  renew: (...args) => inner.renew(...args),
  release: (...args) => inner.release(...args),
  async complete(id, ...rest) {
    if (doomed.has(id.key)) {
      die();
      await new Promise(() => {});
    }
    return inner.complete(id, ...rest);
  },
};

/** Runs between `idempotent` and `rateLimit`. */
const beforeCharge = (handler) => (request, response) => {
  if (faultOf(request) === "before the handler") die();
  else handler(request, response);
};

const pay = async (request, response) => {
  const key = request.headers["idempotency-key"];
  const fault = faultOf(request);
  await sleep(handlerMs);
  if (fault === "in the handler") return die();
  const runs = await redis.incr(`runs:${key}`);
  if (fault === "after the effect") return die();
  if (fault === "before complete") doomed.add(key);
  if (fault === "stall") {
    const until = performance.now() + 2 * lease;
    while (performance.now() < until);
  }
  response.writeHead(201, { "Content-Type": "application/json" });
  response.end(JSON.stringify({ runs, pid: process.pid, id: Math.random() }));
};

const guarded = idempotent({
  store,
  scope: () => "ada",
  lease,
  wait,
  ttl: "1h",
  deadlineMs: "20s",
  replayLimit: "1000000/s",
  onEvent: (event) => process.send?.({ event: event.type, key: event.key }),
})(beforeCharge(rateLimit({ limiter, key: (request) => String(request.headers["idempotency-key"]) })(pay)));

const server = createServer(guarded);
server.listen(0, "127.0.0.1", async () => {
  await redis.ping();
  process.send?.({ port: server.address().port });
});
