/**
 * One of several processes that charge the same Redis key as fast as they can. Logs every decision of the store in the
 * order of its replies, and writes the log to a file of doubles.
 */
import { writeFileSync } from "node:fs";
import { Redis } from "ioredis";
import { createLimiter } from "../dist/index.js";
import { redisStore } from "../dist/redis.js";
import { loggedScript } from "../test/redis/script-variants.js";

const { port, policy, decisions, inFlight, localDenialMs, file } = JSON.parse(process.argv[2] ?? "{}");
const redis = new Redis(port, { autoResendUnfulfilledCommands: false });
/** The store's replies in order, three numbers each: number of the decision, server time, reply. */
const storeReplies = [];

const logged = async (/** @type {any} */ reply) => {
  const [replies, now, numbers] = await reply;
  // The version of the reply comes first.
  for (let i = 0; i < numbers.length; i++) storeReplies.push(numbers[i], now, replies[i + 1]);
  return replies;
};
const client = {
  get status() {
    return redis.status;
  },
  evalsha: (_sha, count, ...rest) => logged(redis.evalsha(loggedScript.sha, count, ...rest)),
  eval: (_text, count, ...rest) => logged(redis.eval(loggedScript.text, count, ...rest)),
};
const limiter = createLimiter({
  policy,
  store: redisStore(client),
  localDenialMs,
  onStoreError: "throw",
  deadlineMs: "60s",
});

/** The callers' decisions, eight numbers each: start and end of the call in ns, cost, and the fields of the decision. */
const received = [];
let [left, cached, allowed] = [decisions, 0, 0];
const clock = () => Number(process.hrtime.bigint());

async function caller(/** @type {number} */ seed) {
  for (let i = seed; left > 0; i++) {
    left--;
    const cost = 1 + (i % 3);
    const start = clock();
    const before = storeReplies.length;
    const decision = await limiter.consume("hot", cost);
    if (decision.allowed) allowed++;
    // A denial without a new reply may be cached. Yield now and then, or cached denials would starve the socket.
    if (localDenialMs > 0) {
      if (!decision.allowed && before === storeReplies.length) {
        cached++;
        if (cached % 16 === 0) await new Promise(setImmediate);
      }
      continue;
    }
    const { remaining, resetAfterMs, nextAfterMs, retryAfterMs } = decision;
    received.push(
      start,
      clock(),
      cost,
      Number(decision.allowed),
      remaining,
      resetAfterMs,
      nextAfterMs,
      retryAfterMs === undefined ? 0 : retryAfterMs === null ? -1 : retryAfterMs,
    );
  }
}

await redis.ping();
process.send?.("ready");
await new Promise((resolve) => process.once("message", resolve));
await Promise.all(Array.from({ length: inFlight }, (_, i) => caller(i)));
redis.disconnect();
const all = Float64Array.from([storeReplies.length, ...storeReplies, ...received]);
writeFileSync(file, new Uint8Array(all.buffer));
const fromStore = storeReplies.length / 3;
process.send?.({ allowed, fromStore, cached: decisions - fromStore });
process.disconnect?.();
