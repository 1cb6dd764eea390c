/** Measures the server time of sliding logs with limits of 100, 1000 and 10 000, and how long other clients wait. */
import { Redis } from "ioredis";
import { fakeClockScript } from "../test/redis/script-variants.js";
import { startRedis } from "../test/servers/redis-server.js";
import { connect } from "../test/servers/resp.js";
import { formatNumber, goal, goalTable, spread, table } from "./report.js";
import { repeats } from "./settings.js";

export const title = "Sliding logs on Redis";

const LIMITS = [100, 1000, 10_000];
/** Goals: server time per decision in microseconds, by limit. */
const GOALS = { 1000: 60, 10000: 400 };
const MAX_CALL_US = 10_000;
const WINDOW_MS = 3_600_000;
const CALLS = 1000;
/** Number of keys in the largest batch of one call. */
const LONG_LOGS = 32;
/** Number of logs to alternate where grants end: calls then follow each other as under load. */
const ENDING_LOGS = 20;

/** Sequential calls on full logs. */
const SCENARIOS = {
  "allowed, one grant ends per ms": { ending: true, run: (limiter, key) => limiter.consume(key) },
  "denied, cost 1": { run: (limiter, key) => limiter.consume(key) },
  "denied, cost limit / 2": { run: (limiter, key, limit) => limiter.consume(key, limit / 2) },
  peek: { run: (limiter, key) => limiter.peek(key) },
};

export async function run(progress) {
  const server = await startRedis();
  const client = new Redis(server.port, { autoResendUnfulfilledCommands: false });
  const { createLimiter, slidingLog } = await import("../dist/index.js");
  const { redisStore } = await import("../dist/redis.js");
  const bench = { server, client, createLimiter, slidingLog, store: redisStore(client) };
  try {
    const results = {};
    const bytes = {};
    for (const limit of LIMITS) {
      const limiter = limiterOf(bench, limit);
      for (const [name, scenario] of Object.entries(SCENARIOS)) {
        results[`${limit} ${name}`] = [];
        for (let repeat = 1; repeat <= repeats; repeat++) {
          progress(`limit ${limit}: ${name}, repeat ${repeat} of ${repeats}`);
          results[`${limit} ${name}`].push(await serverUs(bench, limiter, limit, scenario));
        }
      }
      const [key] = await fullLogs(bench, limiter, 1, limit);
      bytes[limit] = Number(await client.memory("USAGE", (await limiter.inspect(key)).storedKey));
    }
    progress(`${LONG_LOGS} concurrent logs of 10 000`);
    return report(results, bytes, await manyLongLogs(bench));
  } finally {
    client.disconnect();
    await server.stop();
  }
}

function limiterOf({ createLimiter, slidingLog, store }, limit) {
  const policy = slidingLog({ limit, windowMs: WINDOW_MS, name: `log of ${limit}` });
  return createLimiter({ policy, store, onStoreError: "throw", localDenialMs: 0, deadlineMs: "60s" });
}

/** Creates keys with a full log of one grant per millisecond. The first grant ends at `firstEnd`. */
async function fullLogs({ client }, limiter, count, limit, firstEnd = Date.now() + WINDOW_MS / 2) {
  const keys = Array.from({ length: count }, (_, i) => `k${i}`);
  const stored = await Promise.all(keys.map(async (key) => (await limiter.inspect(key)).storedKey));
  await client.del(stored);
  await client.script("LOAD", fakeClockScript.text);
  const start = firstEnd - WINDOW_MS;
  const shape = `sliding-log take 1 ${limit} ${WINDOW_MS} 1 0 ${WINDOW_MS}`;
  for (let i = 0; i < limit; i += 100) {
    const pipeline = client.pipeline();
    for (let j = i; j < Math.min(i + 100, limit); j++) {
      pipeline.evalsha(fakeClockScript.sha, 1, stored[0], "1 1", shape, String(start + j));
    }
    await pipeline.exec();
  }
  await Promise.all(stored.slice(1).map((copy) => client.copy(stored[0], copy)));
  return keys;
}

/** Creates full logs whose first grants have just ended. Tries again if filling took too long. */
async function endingLogs(bench, limiter, limit) {
  for (let endsInMs = 100 + limit / 4; ; endsInMs *= 2) {
    const endsAt = Date.now() + endsInMs;
    const keys = await fullLogs(bench, limiter, ENDING_LOGS, limit, endsAt);
    if (Date.now() > endsAt) continue;
    while (Date.now() < endsAt + 5) await new Promise((resolve) => setTimeout(resolve, 1));
    return keys;
  }
}

/** Server time per decision in microseconds. */
async function serverUs(bench, limiter, limit, { ending, run }) {
  let [calls, us] = [0, 0];
  while (calls < CALLS) {
    const keys = ending ? await endingLogs(bench, limiter, limit) : await fullLogs(bench, limiter, 1, limit);
    // Refill the logs when a third of the grants has ended.
    const until = ending ? performance.now() + limit / 3 : Infinity;
    const before = await scriptStats(bench.client);
    for (let i = 0, due = 0; i < CALLS && performance.now() < until; i++) {
      // In each log, one grant ends per millisecond.
      if (ending && i % keys.length === 0) {
        while (performance.now() < due) await new Promise(setImmediate);
        due = performance.now() + 1;
      }
      const { allowed } = await run(limiter, keys[i % keys.length], limit);
      if (allowed !== Boolean(ending)) throw new Error(`limit ${limit}: allowed is ${allowed}`);
    }
    const after = await scriptStats(bench.client);
    calls += after.calls - before.calls;
    us += after.us - before.us;
  }
  return us / calls;
}

async function scriptStats(client) {
  const [, calls, us] = /cmdstat_evalsha:calls=(\d+),usec=(\d+)/.exec(await client.info("commandstats"));
  return { calls: Number(calls), us: Number(us) };
}

/** The slowest script call, and the slowest PING of another connection, during concurrent decisions on 32 logs of 10 000. */
async function manyLongLogs(bench) {
  const limit = 10_000;
  const limiter = limiterOf(bench, limit);
  const keys = await fullLogs(bench, limiter, LONG_LOGS, limit);
  const other = await connect(bench.server.port, { timeoutMs: 60_000 });
  await other.call("CONFIG", "SET", "slowlog-max-len", 10_000);
  await other.call("CONFIG", "SET", "slowlog-log-slower-than", 0);
  const [scripts, each, pings] = [[], [], []];
  try {
    for (let round = 0; round < 2 + 3 * repeats; round++) {
      await other.call("SLOWLOG", "RESET");
      let [done, slowest] = [false, 0];
      const pinging = (async () => {
        while (!done) {
          const start = performance.now();
          await other.call("PING");
          slowest = Math.max(slowest, performance.now() - start);
        }
      })();
      // Refund what is charged: every round starts with the same full logs.
      await Promise.all(keys.map((key, i) => (i % 2 ? limiter.consume(key) : limiter.refund(key, 1))));
      await Promise.all(keys.map((key, i) => (i % 2 ? limiter.peek(key) : limiter.consume(key))));
      done = true;
      await pinging;
      const log = await other.call("SLOWLOG", "GET", -1);
      const spent = log.filter(([, , , [name]]) => /^evalsha$/i.test(name)).map(([, , us]) => us);
      // The first two rounds are a warm-up.
      if (round >= 2) {
        scripts.push(Math.max(...spent));
        each.push(spent.reduce((sum, us) => sum + us) / (2 * keys.length));
        pings.push(slowest);
      }
    }
  } finally {
    other.close();
  }
  return { scripts, each, pings };
}

function report(results, bytes, { scripts, each, pings }) {
  const rows = LIMITS.map((limit) => [
    limit,
    ...Object.keys(SCENARIOS).map((name) => spread(results[`${limit} ${name}`])),
    bytes[limit],
    formatNumber(bytes[limit] / limit),
  ]);
  const goals = Object.entries(GOALS).flatMap(([limit, us]) =>
    Object.keys(SCENARIOS).map((name) => goal(`limit ${limit}: ${name}`, results[`${limit} ${name}`], "<=", us, " us")),
  );
  goals.push(goal(`${LONG_LOGS} logs of 10 000: slowest call of each round`, scripts, "<=", MAX_CALL_US, " us"));
  const head = ["server us per decision, limit", ...Object.keys(SCENARIOS), "MEMORY USAGE", "bytes per grant"];
  const waits = [
    `${LONG_LOGS} concurrent logs of 10 000`,
    spread(each),
    spread(scripts),
    formatNumber(Math.max(...scripts)),
    spread(pings),
    formatNumber(Math.max(...pings)),
  ];
  const waitsHead = ["", "us per decision", "slowest call, us", "worst", "another client's slowest PING, ms", "worst"];
  return [table(head, rows), table(waitsHead, [waits]), goalTable(goals)];
}
