/**
 * Ten minutes of traffic on Express with rules, abuse prevention, idempotency and an observer: pipelined clients that leave,
 * retried payments, reported costs, scanners that a trap blocks, and a Redis that is killed or stopped every 30 seconds. The
 * handlers are the oracle. The rules fail closed, so the bounds hold through outages. SLUICE_SCALE multiplies the time.
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
  /** More than an outage refills, 60: a Redis that lost its buckets would admit what no refill explains. */
  capacity: 200,
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
const TRAP = "/wp-login.php";
/** Requests of a scanner after the trap. */
const SCANS = 5;
/** Time after an outage until the circuit is closed again. */
const RECOVERY_MS = 5000;
/** A strike that takes longer may have missed its deadline, and then it is recorded in the process only. */
const MAX_STRIKE_MS = 100;
/** How much heap and external memory may grow from a third of the time to the end: the oracle itself keeps every payment. */
const MAX_GROWTH_MB = 12;
/** The same for the memory of the process, which includes what V8 and malloc keep in reserve. */
const MAX_RSS_GROWTH_MB = 48;

const agent = new Agent({ keepAlive: true, maxSockets: 64 });

/** Sends a request. The status is 0 if it was left or the connection failed. */
function send(port, path, { user = "ada", method = "GET", headers = { "x-user": user }, leaveAfterMs } = {}) {
  return new Promise((resolve) => {
    const options = { port, host: "127.0.0.1", path, method, agent, headers };
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
  const settings = JSON.stringify({ redisPort: redis.port, limits, trap: TRAP });
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
  const sent = { left: 0, replays: 0, outages: 0, scanners: 0, blocked: 0, statuses: new Map() };
  let calmFromMs = 0;
  const isCalm = () => elapsedMs() >= calmFromMs;
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
    const headers = { "x-user": user, "Idempotency-Key": key };
    for (let attempt = 0; ; attempt++) {
      const leaves = attempt === 0 && Math.random() < 0.5;
      const leaveAfterMs = leaves ? Math.random() * 30 : undefined;
      if (leaves) sent.left++;
      const paid = await send(port, "/pay", { method: "POST", headers, leaveAfterMs });
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
  /** A new IP address is served, requests the trap, and is blocked from then on, also by a Redis that was restarted. */
  const scan = async () => {
    const address = `198.18.${(sent.scanners >> 8) & 255}.${sent.scanners++ & 255}`;
    const scanner = { headers: { "X-Forwarded-For": address } };
    const served = await send(port, "/work", scanner);
    count(served);
    if (![200, 503, 0].includes(served.status)) failures.push(`a new address got ${served.status}`);
    const [wasCalm, startMs] = [isCalm(), elapsedMs()];
    const trapped = await send(port, TRAP, scanner);
    if (![404, 503, 0].includes(trapped.status)) failures.push(`the trap returned ${trapped.status}`);
    const isRecorded = trapped.status === 404 && wasCalm && isCalm() && elapsedMs() - startMs < MAX_STRIKE_MS;
    for (let i = 0; i < SCANS; i++) {
      const { status } = await send(port, "/work", scanner);
      if (isRecorded && ![429, 503, 0].includes(status)) failures.push(`a blocked address got ${status}`);
      if (isRecorded && status === 429) sent.blocked++;
      // The last requests are sent after an outage that starts meanwhile.
      await sleep(i === 0 ? 50 : 1500);
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
    ...Array.from({ length: 4 }, () => repeat(scan)),
    repeat(async () => {
      const denied = await send(port, "/work", { headers: { "x-user": "ada", "X-Forwarded-For": "192.0.2.1" } });
      if (![403, 0].includes(denied.status)) failures.push(`a denied address got ${denied.status}`);
      await sleep(20);
    }),
  ];

  /** Kills Redis and stops it in turn. */
  const outages = (async () => {
    for (let next = OUTAGE_EVERY_MS / 2; next < SECONDS * 1000; next += OUTAGE_EVERY_MS) {
      await sleep(next - elapsedMs());
      calmFromMs = Number.POSITIVE_INFINITY;
      if (sent.outages++ % 2 === 0) {
        await redis.kill();
        await sleep(OUTAGE_MS);
        await redis.restart();
      } else {
        redis.pause();
        await sleep(OUTAGE_MS);
        redis.resume();
      }
      calmFromMs = elapsedMs() + RECOVERY_MS;
    }
  })();

  try {
    await sleep((SECONDS * 1000) / 3);
    const { memory: before } = await report();
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

    yield {
      claim: "soak: requests",
      details: `${seen.requests} requests in ${elapsedS.toFixed(0)} s, ${sent.left} left, ${sent.outages} outages of Redis: ${statuses.join(", ")}; ${JSON.stringify(seen.errors)} errors`,
      failures: [
        ...failures,
        ...(seen.unhandled > 0 ? [`${seen.unhandled} unhandled errors`] : []),
        ...Object.entries(seen.errors).map(([name, count]) => `${count} requests failed with ${name}`),
      ],
    };
    const rates = USERS.map((user) => seen.rates[user] ?? { admitted: 0, burst: 0 });
    const bursts = rates.map(({ burst }) => burst.toFixed(1));
    // One more, because times and tokens are rounded.
    const bound = limits.capacity + 1;
    yield {
      claim: "soak: rates",
      details: `admitted ${rates.map(({ admitted }) => admitted).join(", ")}; largest bursts ${bursts.join(", ")}, bound ${bound}`,
      failures: [
        ...rates
          .filter(({ burst }) => burst > bound)
          .map(({ burst }) => `a burst of ${burst.toFixed(1)} requests was admitted`),
        ...rates.filter(({ admitted }) => admitted === 0).map(() => "a user was never admitted"),
        ...(sent.outages === 0 ? ["there was no outage"] : []),
      ],
    };
    yield {
      claim: "soak: traps",
      details: `${sent.scanners} scanners, ${sent.blocked} requests of them blocked`,
      failures: sent.blocked === 0 ? ["no scanner was blocked"] : [],
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
        ...(runs.length === 0 || sent.replays === 0 ? ["no payment was replayed"] : []),
        ...(confirmed.size < payments ? [`${payments - confirmed.size} payments were never confirmed`] : []),
      ],
    };
    const toMb = (/** @type {number} */ bytes) => bytes / 2 ** 20;
    const grownMb = toMb(seen.memory.used - before.used);
    const rssGrownMb = toMb(seen.memory.rss - before.rss);
    yield {
      claim: "soak: memory",
      details: `heap and external ${toMb(before.used).toFixed(1)} MB after a third, ${grownMb.toFixed(1)} MB more at the end; process ${toMb(before.rss).toFixed(1)} MB, ${rssGrownMb.toFixed(1)} MB more`,
      failures: [
        ...(grownMb > MAX_GROWTH_MB ? [`heap and external memory grew by ${grownMb.toFixed(1)} MB`] : []),
        ...(rssGrownMb > MAX_RSS_GROWTH_MB ? [`the process grew by ${rssGrownMb.toFixed(1)} MB`] : []),
      ],
    };
  } finally {
    isRunning = false;
    child.kill();
    agent.destroy();
    await redis.stop();
  }
}
