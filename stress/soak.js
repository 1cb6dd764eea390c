/**
 * Ten minutes of traffic on Express with rules, abuse prevention, idempotency and an observer: pipelined clients that leave,
 * retried payments, reported costs, and a Redis that is killed or stopped every 30 seconds. The handlers are the oracle.
 * SLUICE_SCALE multiplies the time.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { Agent, request } from "node:http";
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startRedis } from "../test/servers/redis-server.js";
import { stepsOf } from "./steps.js";

const SECONDS = stepsOf(600);
const OUTAGE_EVERY_MS = 30_000;
const OUTAGE_MS = 3000;
const limits = {
  slots: 5,
  /** Longer than an outage: a lease that is not renewed for its whole length ends. */
  leaseMs: 12_000,
  capacity: 50,
  perSecond: 20,
  tokens: 4000,
  tokensPerSecond: 500,
  estimate: 100,
};
/** The actual cost of a request, four times its estimate. */
const USED = 400;
const TOKEN_CALLERS = 6;
const USERS = ["ada", "bob", "cleo", "dan"];
const PIPELINE = 6;
/** How much the heap may grow from a third of the time to the end: the oracle itself keeps every payment. */
const MAX_GROWTH_MB = 12;

const agent = new Agent({ keepAlive: true, maxSockets: 64 });

/** Sends a request. The status is 0 if it was left or the connection failed. */
function send(port, path, { user = "ada", method = "GET", headers = {}, leaveAfterMs } = {}) {
  return new Promise((resolve) => {
    const options = { port, host: "127.0.0.1", path, method, agent, headers: { "x-user": user, ...headers } };
    const sent = request(options, async (response) => {
      let text = "";
      try {
        for await (const chunk of response) text += chunk;
      } catch {}
      clearTimeout(timer);
      resolve({ status: response.statusCode ?? 0, text, replayed: response.headers["idempotent-replayed"] === "true" });
    });
    const timer = leaveAfterMs === undefined ? undefined : setTimeout(() => sent.destroy(), leaveAfterMs);
    sent.on("error", () => resolve({ status: 0, text: "", replayed: false })).end();
  });
}

/** Sends requests on one connection at once, and leaves. */
async function leavePipeline(port) {
  const socket = connect(port, "127.0.0.1").on("error", () => {});
  socket.resume();
  const ms = Math.floor(Math.random() * 200);
  socket.write(`GET /slow?ms=${ms} HTTP/1.1\r\nHost: localhost\r\nx-user: eve\r\n\r\n`.repeat(PIPELINE));
  await sleep(Math.random() * 100);
  socket.destroy();
}

/** Yields the rows of the soak. */
export async function* soak() {
  // What Redis has acknowledged survives: a restart that lost buckets would refill them.
  const redis = await startRedis({ args: ["--appendonly", "yes", "--appendfsync", "always"] });
  const script = fileURLToPath(new URL("soak-server.js", import.meta.url));
  const settings = JSON.stringify({ redisPort: redis.port, limits });
  const child = fork(script, [settings], { execArgv: ["--expose-gc"] });
  const [{ port }] = await Promise.race([
    once(child, "message"),
    once(child, "exit").then(() => Promise.reject(new Error("the server has ended"))),
  ]);
  const report = async () => {
    child.send("report");
    return (await once(child, "message"))[0];
  };
  const start = performance.now();
  const elapsedMs = () => performance.now() - start;
  let isRunning = true;
  const sent = { left: 0, replays: 0, outages: 0, statuses: new Map() };
  const failures = [];
  const count = ({ status }) => sent.statuses.set(status, (sent.statuses.get(status) ?? 0) + 1);
  const repeat = async (act) => {
    while (isRunning) await act();
  };

  let payments = 0;
  const confirmed = new Set();
  /** Retries a payment until it is confirmed. Half of the first attempts are left. */
  const pay = async (user) => {
    const key = `payment-${++payments}`;
    const headers = { "Idempotency-Key": key };
    for (let attempt = 0; ; attempt++) {
      const leaves = attempt === 0 && Math.random() < 0.5;
      const leaveAfterMs = leaves ? Math.random() * 30 : undefined;
      if (leaves) sent.left++;
      const paid = await send(port, "/pay", { user, method: "POST", headers, leaveAfterMs });
      count(paid);
      if (paid.replayed) sent.replays++;
      if (paid.status === 201) {
        if (paid.text !== JSON.stringify({ paid: key })) failures.push(`${key} got the response ${paid.text}`);
        confirmed.add(key);
        return;
      }
      if (paid.replayed) failures.push(`${key} got a replayed ${paid.status}, which no handler made`);
      if (!isRunning && elapsedMs() > SECONDS * 1000 + 60_000) return;
      await sleep(paid.status === 0 ? 5 : 50);
    }
  };
  const actors = [
    ...USERS.map((user) => repeat(async () => count(await send(port, "/work", { user })))),
    ...Array.from({ length: 3 }, () =>
      repeat(async () => {
        await leavePipeline(port);
        sent.left++;
      }),
    ),
    ...Array.from({ length: 3 }, () => repeat(async () => count(await send(port, `/slow?ms=${Math.random() * 100}`)))),
    ...Array.from({ length: TOKEN_CALLERS }, () =>
      repeat(async () => {
        const leaves = Math.random() < 0.7;
        if (leaves) sent.left++;
        const path = `/tokens?ms=${20 + Math.random() * 50}&used=${USED}`;
        count(await send(port, path, leaves ? { leaveAfterMs: 10 } : {}));
        await sleep(5);
      }),
    ),
    ...USERS.map((user) => repeat(() => pay(user))),
    repeat(async () => {
      const denied = await send(port, "/work", { headers: { "X-Forwarded-For": "192.0.2.1" } });
      if (![403, 0].includes(denied.status)) failures.push(`a denied address got ${denied.status}`);
      await sleep(20);
    }),
  ];

  /** Kills Redis and stops it in turn. */
  const outages = (async () => {
    for (let next = OUTAGE_EVERY_MS / 2; next < SECONDS * 1000; next += OUTAGE_EVERY_MS) {
      await sleep(next - elapsedMs());
      if (sent.outages++ % 2 === 0) {
        await redis.kill();
        await sleep(OUTAGE_MS);
        await redis.restart();
      } else {
        redis.pause();
        await sleep(OUTAGE_MS);
        redis.resume();
      }
    }
  })();

  try {
    await sleep((SECONDS * 1000) / 3);
    const { heap: heapBefore } = await report();
    await sleep(SECONDS * 1000 - elapsedMs());
    await outages;
    isRunning = false;
    // Requests in flight take less than the second that is added below.
    const elapsedS = elapsedMs() / 1000;
    await Promise.all(actors);
    // Slots that nobody freed end with their lease; the circuit closes.
    await sleep(limits.leaseMs + 1000);
    const seen = await report();
    const freed = await Promise.all(Array.from({ length: limits.slots }, () => send(port, "/slow?ms=300")));
    const statuses = [...sent.statuses].sort().map(([status, count]) => `${count} x ${status || "left"}`);

    const bound = Math.floor(limits.capacity + limits.perSecond * (elapsedS + 1));
    const admitted = Object.values(seen.admitted);
    yield {
      claim: "soak: requests",
      details: `${seen.requests} requests in ${elapsedS.toFixed(0)} s, ${sent.left} left, ${sent.outages} outages of Redis: ${statuses.join(", ")}; ${JSON.stringify(seen.errors)} errors`,
      failures: [
        ...failures,
        ...(seen.unhandled > 0 ? [`${seen.unhandled} unhandled errors`] : []),
        ...Object.entries(seen.errors).map(([name, count]) => `${count} requests failed with ${name}`),
      ],
    };
    yield {
      claim: "soak: rates",
      details: `admitted ${admitted.join(", ")}, bound ${bound}`,
      failures: admitted.filter((count) => count > bound).map((count) => `${count} of ${bound} requests were admitted`),
    };
    const tokenBound = Math.floor(
      limits.tokens + limits.tokensPerSecond * (elapsedS + 1) + TOKEN_CALLERS * (USED - limits.estimate),
    );
    const used = seen.tokens.ada ?? 0;
    yield {
      claim: "soak: reported costs",
      details: `${used} tokens used, bound ${tokenBound}`,
      failures: used > tokenBound || used === 0 ? [`${used} of ${tokenBound} tokens were used`] : [],
    };
    yield {
      claim: "soak: slots",
      details: `at most ${seen.most} of ${limits.slots} handlers at once; ${freed.filter(({ status }) => status === 200).length} slots free a lease after the end`,
      failures: [
        ...(seen.most > limits.slots ? [`${seen.most} handlers ran at once`] : []),
        ...(freed.every(({ status }) => status === 200) ? [] : ["slots are still held"]),
      ],
    };
    const runs = Object.entries(seen.payments);
    const lost = [...confirmed].filter((key) => !seen.payments[key]);
    yield {
      claim: "soak: payments",
      details: `${payments} keys, ${runs.length} run, ${confirmed.size} confirmed, ${sent.replays} replays`,
      failures: [
        ...runs.filter(([, count]) => count > 1).map(([key, count]) => `${key} ran ${count} times`),
        ...lost.map((key) => `${key} was confirmed and never ran`),
        ...(confirmed.size < payments ? [`${payments - confirmed.size} payments were never confirmed`] : []),
      ],
    };
    const grownMb = (seen.heap - heapBefore) / 2 ** 20;
    yield {
      claim: "soak: memory",
      details: `${(heapBefore / 2 ** 20).toFixed(1)} MB after a third, ${grownMb.toFixed(1)} MB more at the end`,
      failures: grownMb > MAX_GROWTH_MB ? [`the heap grew by ${grownMb.toFixed(1)} MB`] : [],
    };
  } finally {
    isRunning = false;
    child.kill();
    agent.destroy();
    await redis.stop();
  }
}
