/**
 * Pays 20 times over two processes that crash now and then. The client sends a payment again, with the same key, until it
 * gets a response. Run it with: node examples/run.js payments
 */
import { fork } from "node:child_process";
import { env } from "node:process";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";

const PAYMENTS = 20;
const WORKERS = 2;

const redis = new Redis(env.REDIS_URL ?? "redis://127.0.0.1:6379");
await redis.del("example:payments", "example:balances");
const user = `user-${Date.now()}`;
const counts = { requests: 0, crashes: 0, replays: 0 };
let isOver = false;

/** The ports of the workers that are running. @type {Map<import("node:child_process").ChildProcess, number>} */
const workers = new Map();

/** Starts a worker, and another one when it has crashed. */
function startWorker() {
  const worker = fork(fileURLToPath(new URL("worker.js", import.meta.url)));
  worker.on("message", (port) => void workers.set(worker, Number(port)));
  worker.on("exit", () => {
    workers.delete(worker);
    if (isOver) return;
    counts.crashes++;
    startWorker();
  });
}

/** Sends a payment until it gets a response that is not "try again". */
async function pay(/** @type {number} */ amount) {
  const key = crypto.randomUUID();
  for (;;) {
    const ports = [...workers.values()];
    const port = ports[counts.requests++ % ports.length];
    try {
      const response = await fetch(`http://127.0.0.1:${port}/payments`, {
        method: "POST",
        headers: { "Content-Type": "application/json", "Idempotency-Key": key, "X-User": user },
        body: JSON.stringify({ amount }),
      });
      const body = await response.text();
      if (response.headers.has("Idempotent-Replayed")) counts.replays++;
      if (response.status === 201) return { key, amount, body };
    } catch {
      // The worker has crashed, and its payment may have been made.
    }
    await delay(200);
  }
}

for (let i = 0; i < WORKERS; i++) startWorker();
while (workers.size < WORKERS) await delay(10);

let total = 0;
for (let i = 1; i <= PAYMENTS; i++) {
  const amount = 10 * i;
  const { body } = await pay(amount);
  total += amount;
  // The response did not reach the client, for example: it sends the payment again.
  if (i % 4 === 0) await payAgain(amount, JSON.parse(body).key, body);
}

/** Sends a payment that was made before. The response has to be the same. */
async function payAgain(/** @type {number} */ amount, /** @type {string} */ key, /** @type {string} */ expected) {
  const [port] = workers.values();
  const response = await fetch(`http://127.0.0.1:${port}/payments`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Idempotency-Key": key, "X-User": user },
    body: JSON.stringify({ amount }),
  });
  counts.requests++;
  if (response.headers.has("Idempotent-Replayed")) counts.replays++;
  if ((await response.text()) !== expected) process.exitCode = 1;
}

const paid = -Number(await redis.hget("example:balances", user));
console.log(`${PAYMENTS} payments of ${total} in total
  requests         ${counts.requests}
  crashes          ${counts.crashes}, each after the money had moved
  replays          ${counts.replays}
  paid             ${paid}`);
if (paid !== total) process.exitCode = 1;
isOver = true;
for (const worker of workers.keys()) worker.disconnect();
redis.disconnect();
