/** Measures the server time of holds, settlements and takes beside other holds, relative to a plain take, and the script's size. */
import { Redis } from "ioredis";
import { joinScript, PARTS, readPart } from "../scripts/make-redis-script.js";
import { startRedis } from "../test/servers/redis-server.js";
import { formatNumber, goal, goalTable, median, ratios, spread, table } from "./report.js";
import { repeats } from "./settings.js";

export const title = "Holds on Redis";

const POLICIES = {
  "token-bucket": { algorithm: "token-bucket", capacity: 1_000_000, tokensPerSecond: 1000 },
  "fixed-window": { algorithm: "fixed-window", limit: 1_000_000, windowMs: 60_000 },
  "sliding-window": { algorithm: "sliding-window", limit: 1_000_000, windowMs: 60_000 },
  "sliding-log": { algorithm: "sliding-log", limit: 1000, windowMs: 60_000 },
};
/** Goals: server time relative to a plain take of a token bucket, by the number of other holds in the bucket. */
const GOALS = { 0: 4, 9: 8, 99: 30 };
/** Goals of a take beside this many holds, relative to a take of the same policy beside none. */
const BESIDE_GOALS = { 200: 4, 1000: 10 };
/** A log with holds is loaded as a whole, so its time grows with its length, and it has no goal. */
const WITHOUT_GOAL = "sliding-log";
const GOAL_PARTS = ["holds", "concurrency", "penalty"];
const HOLD_PARTS = [...GOAL_PARTS, "held-log"];
const MAX_LUA_BYTES = 14_500;
/** Sequential calls per measurement, each to a bucket of its own. */
const CALLS = 50;
const ROUNDS = Math.max(1, Math.round((40 * repeats) / 7));

export async function run(progress) {
  const server = await startRedis();
  const client = new Redis(server.port, { autoResendUnfulfilledCommands: false });
  const { compilePolicy } = await import("../dist/algorithms.js");
  const { redisStore } = await import("../dist/redis.js");
  const { concurrency } = await import("../dist/index.js");
  const policies = { ...POLICIES, concurrency: concurrency(100_000) };
  const bench = { client, store: redisStore(client) };
  const plain = compilePolicy({ ...POLICIES["token-bucket"], name: "plain" });
  const results = {};
  const beside = {};
  try {
    for (const [name, policy] of Object.entries(policies)) {
      for (const others of Object.keys(GOALS).map(Number)) {
        progress(`${name}: ${others} other holds`);
        const compiled = compilePolicy({ ...policy, name });
        results[`${name} ${others}`] = await measure(bench, plain, compiled, others);
      }
    }
    for (const [name, policy] of Object.entries(policies)) {
      if (name === WITHOUT_GOAL) continue;
      progress(`${name}: takes beside many holds`);
      const compiled = compilePolicy({ ...policy, name, maxHolds: 1000 });
      beside[name] = await measureBeside(bench, compiled);
      // A concurrency limit has no debts.
      if (name !== "concurrency") beside[`${name} with a debt`] = await measureBeside(bench, compiled, true);
    }
  } finally {
    client.disconnect();
    await server.stop();
  }
  return report(results, beside);
}

/**
 * Server time per take in microseconds beside 0, 200 and 1000 holds, whose ids are like those of `hold`, for each round. With
 * a debt, one of the holds is settled with more than fits, and the takes are denied.
 */
async function measureBeside(bench, policy, hasDebt = false) {
  await bench.client.flushdb();
  const counts = [0, ...Object.keys(BESIDE_GOALS).map(Number)];
  const times = Object.fromEntries(counts.map((count) => [count, []]));
  for (const count of counts) {
    const ids = Array.from({ length: count }, (_, i) => `Qx8Zk3_qW9f2.${i}`);
    const hold = (id, i) => [{ policy, key: `${count}`, cost: 1, mode: "hold", hold: { id, forMs: 3_600_000 + i } }];
    await bench.store.apply(ids.map(hold));
    const settlement = { ...hold(ids[0], 0)[0], cost: 1.5 * policy.limit, mode: "settle" };
    if (hasDebt && count > 0) await bench.store.apply([[settlement]]);
  }
  for (let round = 0; round <= ROUNDS; round++) {
    for (const count of counts) {
      const before = await scriptUs(bench.client);
      for (let i = 0; i < CALLS; i++) {
        await bench.store.apply([[{ policy, key: `${count}`, cost: 1, mode: "take" }]]);
      }
      if (round > 0) times[count].push(((await scriptUs(bench.client)) - before) / CALLS);
    }
  }
  return times;
}

/** Server time per call in microseconds, of takes, holds, settlements, and takes beside the holds, for each round. */
async function measure(bench, plain, policy, others) {
  await bench.client.flushdb();
  const keys = Array.from({ length: CALLS }, (_, i) => `user:${String(i).padStart(10, "0")}`);
  const hold = (id, forMs) => ({ policy, cost: 1, mode: "hold", hold: { id, forMs } });
  for (let i = 0; i < others; i++) {
    await Promise.all(keys.map((key) => bench.store.apply([[{ ...hold(`other-${i}-abcdef`, 3_600_000 + i), key }]])));
  }
  const kinds = {
    take: { policy: plain, cost: 1, mode: "take" },
    hold: hold("a-hold-of-a-job", 60_000),
    "take beside": { policy, cost: 1, mode: "take" },
    settle: { ...hold("a-hold-of-a-job", 0), mode: "settle" },
  };
  const times = Object.fromEntries(Object.keys(kinds).map((kind) => [kind, []]));
  // The first round is a warm-up.
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [kind, charge] of Object.entries(kinds)) {
      const before = await scriptUs(bench.client);
      for (const key of keys) await bench.store.apply([[{ ...charge, key }]]);
      if (round > 0) times[kind].push(((await scriptUs(bench.client)) - before) / CALLS);
    }
  }
  const [[last]] = await bench.store.apply([[{ policy, key: keys[0], cost: 0, mode: "peek" }]]);
  if ((last.held ?? 0) !== others) throw new Error(`${policy.name}: ${last.held} held, expected ${others}`);
  return times;
}

async function scriptUs(client) {
  const [, us] = /cmdstat_evalsha:calls=\d+,usec=(\d+)/.exec(await client.info("commandstats")) ?? [];
  return Number(us ?? 0);
}

function report(results, beside) {
  const heads = ["plain take", "hold", "settle", "take beside them", "hold / take", "settle / take"];
  const rows = Object.entries(results).map(([name, { take, hold, settle, "take beside": beside }]) => [
    name,
    ...[take, hold, settle, beside].map((times) => spread(times)),
    ...[hold, settle].map((times) => formatNumber(median(ratios(times, take)))),
  ]);
  const goals = Object.entries(results)
    .filter(([name]) => !name.startsWith(WITHOUT_GOAL))
    .flatMap(([name, { take, hold, settle }]) =>
      Object.entries({ hold, settle }).map(([kind, times]) =>
        goal(`${name} other holds: ${kind} / plain take`, ratios(times, take), "<=", GOALS[name.split(" ")[1]], "x"),
      ),
    );
  for (const [name, times] of Object.entries(beside)) {
    for (const [count, max] of Object.entries(BESIDE_GOALS)) {
      goals.push(goal(`${name}: take beside ${count} holds / none`, ratios(times[count], times[0]), "<=", max, "x"));
    }
  }
  const besideRows = Object.entries(beside).map(([name, times]) => [
    name,
    ...Object.values(times).map((us) => spread(us)),
  ]);
  const none = Object.fromEntries(PARTS.map((part) => [part, ""]));
  const bytes = HOLD_PARTS.map(
    (part) => joinScript({ ...none, [part]: readPart(part) }).length - joinScript(none).length,
  );
  const total = bytes.slice(0, GOAL_PARTS.length).reduce((sum, size) => sum + size);
  goals.push(goal(`bytes of ${GOAL_PARTS.join(", ")} in the script`, [total], "<=", MAX_LUA_BYTES));
  return [
    table(["server us per call, other holds", ...heads], rows),
    table(["server us per take beside", "0 holds", "200 holds", "1000 holds"], besideRows),
    table(["bytes", ...HOLD_PARTS.map((part) => `${part}.lua`), "script"], [["", ...bytes, joinScript().length]]),
    goalTable(goals),
  ];
}
