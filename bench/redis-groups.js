/**
 * Measures several limits that are decided in one step on Redis: throughput, CPU time and script time of 1, 2, 3, 4 and 8
 * limits. BENCH_OLD_DIST names the dist/ of another build, which is measured in turn with the current one.
 */
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { startRedis } from "../test/servers/redis-server.js";
import { measureInChild } from "./measure-in-child.js";
import { formatNumber, goal, goalTable, median, ratios, spread, table } from "./report.js";
import { ms, repeats } from "./settings.js";

export const title = "Several limits on Redis";

const LIMITS = [1, 2, 3, 4, 8];
const CALLERS = [64, 1];
const KEYS = 10_000;
/** Goals in thousand decisions per second of 64 callers, where one limit makes 186. */
const GOALS = { 2: 140, 8: 45 };
const GOAL_OF_ONE = 186;
const WARM_UP_MS = Math.max(500, ms);

/** Token buckets of different rates, and windows of different lengths in turn. */
const KINDS = {
  buckets: (i) => ({ capacity: 100_000 + i, tokensPerSecond: 900 + 100 * i, name: `limit${i}` }),
  mixed: (i) =>
    i % 2 === 0
      ? { capacity: 100_000 + i, tokensPerSecond: 900 + 100 * i, name: `limit${i}` }
      : {
          algorithm: i % 4 === 1 ? "fixed-window" : "sliding-window",
          limit: 1_000_000,
          windowMs: 60_000 + i,
          name: `limit${i}`,
        },
};

export async function run(progress) {
  const current = fileURLToPath(new URL("../dist", import.meta.url));
  const old = process.env.BENCH_OLD_DIST;
  const builds = { ...(old && { old: resolve(old) }), new: current };
  const server = await startRedis();
  const results = {};
  try {
    for (let repeat = 1; repeat <= repeats; repeat++) {
      progress(`repeat ${repeat} of ${repeats}`);
      for (const { row, ...load } of rows()) {
        const names = Object.keys(builds);
        // Which build comes first alternates.
        for (const build of repeat % 2 === 0 ? names.reverse() : names) {
          await server.call("FLUSHALL");
          const task = { ...load, dist: builds[build], port: server.port };
          ((results[row] ??= {})[build] ??= []).push(await measureInChild("redis-groups", task));
        }
      }
    }
  } finally {
    await server.stop();
  }
  return report(results, Object.keys(builds));
}

function rows() {
  return CALLERS.flatMap((callers) =>
    Object.keys(KINDS).flatMap((kind) =>
      LIMITS.filter((limits) => kind === "buckets" || limits > 1).map((limits) => ({
        row: rowOf(limits, kind, callers),
        ...{ limits, kind, callers },
      })),
    ),
  );
}

function rowOf(limits, kind, callers) {
  const what = limits === 1 ? "1 limit" : `${limits} limits`;
  return `${what}${kind === "mixed" ? ", buckets and windows" : ""}, ${callers === 1 ? "1 caller" : `${callers} callers`}`;
}

function report(results, builds) {
  const valuesOf = (row, build, field) => results[row][build].map((one) => one[field]);
  const newToOld = (row, field) => ratios(valuesOf(row, "new", field), valuesOf(row, "old", field));
  const fields = { "k/s": "perMs", "client us": "clientUs", "server us": "serverUs", "script us": "scriptUs" };
  const compared = builds.length > 1;
  const main = table(
    [
      "limits in one step",
      ...Object.keys(fields).flatMap((head) => builds.map((build) => (compared ? `${head}, ${build}` : head))),
      ...(compared ? ["server us, new / old", "script us, new / old"] : []),
    ],
    Object.keys(results).map((row) => [
      row,
      ...Object.values(fields).flatMap((field) =>
        builds.map((build) => formatNumber(median(valuesOf(row, build, field)))),
      ),
      ...(compared ? ["serverUs", "scriptUs"].map((field) => spread(newToOld(row, field))) : []),
    ]),
  );
  const speed = (limits) => valuesOf(rowOf(limits, "buckets", 64), "new", "perMs");
  const goals = Object.entries(GOALS).flatMap(([limits, perMs]) => [
    goal(`${limits} limits, 64 callers`, speed(Number(limits)), ">=", perMs, " k/s"),
    goal(
      `${limits} limits / 1 limit, 64 callers`,
      ratios(speed(Number(limits)), speed(1)),
      ">=",
      Number((perMs / GOAL_OF_ONE).toFixed(2)),
      "x",
    ),
  ]);
  for (const callers of compared ? CALLERS : []) {
    const row = rowOf(1, "buckets", callers);
    goals.push(goal(`server CPU of ${row}, new / old`, newToOld(row, "serverUs"), "<=", 1, "x"));
  }
  return [main, goalTable(goals)];
}

/** Measures one build under one load. Times are per decision. */
export async function measure({ dist, port, limits, kind, callers }) {
  const { Redis } = await import("ioredis");
  const { redisRateLimiter } = await import(pathToFileURL(`${dist}/redis.js`).href);
  const { combine } = await import(pathToFileURL(`${dist}/index.js`).href);
  const client = new Redis(port, { autoResendUnfulfilledCommands: false });
  const parts = Array.from({ length: limits }, (_, i) =>
    redisRateLimiter(client, KINDS[kind](i), { onStoreError: "throw", deadlineMs: "20s" }),
  );
  const limiter = limits === 1 ? parts[0] : combine(parts);
  let calls = 0;
  const load = async (forMs) => {
    const start = performance.now();
    const first = calls;
    const caller = async () => {
      while (performance.now() - start < forMs) {
        globalThis.result = await limiter.consume(`user:${String(calls++ % KEYS).padStart(10, "0")}`);
      }
    };
    await Promise.all(Array.from({ length: callers }, caller));
    return { decisions: calls - first, elapsed: performance.now() - start };
  };
  await load(WARM_UP_MS);
  const [serverBefore, scriptBefore, clientBefore] = [
    await serverUs(client),
    await scriptUs(client),
    process.cpuUsage(),
  ];
  const { decisions, elapsed } = await load(2 * ms);
  const { user, system } = process.cpuUsage(clientBefore);
  if (!globalThis.result.allowed) throw new Error("denied");
  return {
    perMs: decisions / elapsed,
    clientUs: (user + system) / decisions,
    serverUs: ((await serverUs(client)) - serverBefore) / decisions,
    scriptUs: ((await scriptUs(client)) - scriptBefore) / decisions,
  };
}

/** CPU time of redis-server in microseconds. */
async function serverUs(client) {
  const info = await client.info("cpu");
  const field = (name) => Number(new RegExp(`${name}:([\\d.]+)`).exec(info)?.[1]);
  return (field("used_cpu_user") + field("used_cpu_sys")) * 1e6;
}

/** Time spent in the script in microseconds. */
async function scriptUs(client) {
  return Number(/cmdstat_evalsha:calls=\d+,usec=(\d+)/.exec(await client.info("commandstats"))?.[1] ?? 0);
}
