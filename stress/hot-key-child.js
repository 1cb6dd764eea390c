/**
 * One of several processes that spend from one key of Redis as fast as they can. Keeps a log of every decision that
 * the store made, in the order of its replies, and writes it to a file of doubles.
 */
import { writeFileSync } from "node:fs";
import { Redis } from "ioredis";
import { createLimiter } from "../dist/index.js";
import { redisStore } from "../dist/redis.js";
import { loggedScript } from "../test/redis/script-variants.js";

const { port, policy, decisions, inFlight, localDenialMs, file } = JSON.parse(process.argv[2] ?? "{}");
const redis = new Redis(port, { autoResendUnfulfilledCommands: false });
/** What the server told of each decision, in the order of its replies: number, time, reply. */
const told = [];

const logged = async (/** @type {any} */ reply) => {
  const [replies, now, numbers] = await reply;
  for (let i = 0; i < numbers.length; i++) told.push(numbers[i], now, replies[i]);
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

/** What the callers were told: when they asked and got it, the cost, and the figures. */
const got = [];
let [left, local, allowed] = [decisions, 0, 0];
const clock = () => Number(process.hrtime.bigint());

async function caller(/** @type {number} */ seed) {
  for (let i = seed; left > 0; i++) {
    left--;
    const cost = 1 + (i % 3);
    const start = clock();
    const before = told.length;
    const decision = await limiter.consume("hot", cost);
    if (decision.allowed) allowed++;
    // Nothing new was told and it is a denial: it may have come from memory. The store's own come in its order.
    if (localDenialMs > 0) {
      if (!decision.allowed && before === told.length) {
        local++;
        if (local % 16 === 0) await new Promise(setImmediate);
      }
      continue;
    }
    const { remaining, resetAfterMs, nextAfterMs, retryAfterMs } = decision;
    got.push(
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
const all = Float64Array.from([told.length, ...told, ...got]);
writeFileSync(file, new Uint8Array(all.buffer));
process.send?.({ allowed, asked: told.length / 3, local: decisions - told.length / 3 });
process.disconnect?.();
