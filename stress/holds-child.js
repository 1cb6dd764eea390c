/**
 * One of several processes that hold, renew, settle and cancel on the same Redis keys until it is killed. Writes each event
 * to a file at once, so that the log survives the kill.
 */
import { openSync, writeSync } from "node:fs";
import { Redis } from "ioredis";
import { createLimiter, hold } from "../dist/index.js";
import { redisStore } from "../dist/redis.js";
import { policyFrom } from "./policy-from.js";
import { randomFrom } from "./random.js";

const { port, name, seed, file, callers, keys, policies, forMs } = JSON.parse(process.argv[2] ?? "{}");
const random = randomFrom(seed);
const store = redisStore(new Redis(port));
const limiters = policies.map((/** @type {any} */ policy) =>
  createLimiter({ policy: policyFrom(policy), store, onStoreError: "throw", deadlineMs: "20s", localDenialMs: 0 }),
);
const log = openSync(file, "a");
/** Milliseconds of a clock that all processes of this machine share. */
const now = () => Number(process.hrtime.bigint()) / 1e6;
const write = (/** @type {unknown[]} */ ...event) => writeSync(log, `${JSON.stringify(event)}\n`);
const sleep = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));

let jobs = 0;

async function caller() {
  for (;;) {
    const part = random.whole(0, limiters.length - 1);
    const key = `k${random.whole(1, keys)}`;
    const id = `${name}-${jobs++}`;
    const amount = random.whole(1, Math.ceil((policies[part].limit ?? policies[part].capacity) / 4));
    const sentAt = now();
    const decision = await hold(limiters[part], key, amount, { id, forMs });
    if (!decision.allowed) {
      await sleep(random.whole(1, 30));
      continue;
    }
    write("held", id, part, key, amount, sentAt, now());
    // Some work takes longer than the hold, and renews it.
    for (let leftMs = random.once(10) ? 3 * forMs : random.whole(0, 60); leftMs > 0; leftMs -= forMs / 3) {
      await sleep(Math.min(leftMs, forMs / 3));
      if (leftMs <= forMs / 3) break;
      const renewedAt = now();
      const { allowed } = await decision.hold.renew();
      if (!allowed) break;
      write("renewed", id, renewedAt, now());
    }
    if (random.once(20)) continue;
    const actual = random.pick([0, amount, random.whole(0, amount), random.whole(amount, 2 * amount)]);
    // Before it is sent: the work is done.
    write("settling", id, actual, now());
    const { settled } = await (actual === 0 ? decision.hold.cancel() : decision.hold.settle(actual));
    write("settled", id, settled, now());
  }
}

process.on("unhandledRejection", (error) => {
  write("failed", String(error));
  process.exit(1);
});
process.send?.("ready");
await Promise.all(Array.from({ length: callers }, caller));
