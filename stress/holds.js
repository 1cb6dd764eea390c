/**
 * Holds on one Redis from 4 processes with 64 callers each, which are killed while they hold. The events that the
 * processes wrote are replayed independently: actual use stays within the bound of each policy, never more than the limit
 * is leased at once, no hold outlives its end, and no key is left afterwards.
 */
import { fork } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { createLimiter } from "../dist/index.js";
import { redisStore } from "../dist/redis.js";
import { scaled } from "../scripts/scale.js";
import { startRedis } from "../test/servers/redis-server.js";
import { policyFrom } from "./policy-from.js";
import { randomFrom, seedOf } from "./random.js";

const PROCESSES = 4;
const CALLERS = 64;
const KEYS = 3;
const SECONDS = scaled(30);
/** Two kills per second. */
const KILL_EVERY_MS = 500;
const HOLD_MS = 300;
/** The store's clock counts whole milliseconds. */
const CLOCK_MS = 1;

const POLICIES = [
  { algorithm: "concurrency", limit: 12, leaseMs: HOLD_MS, name: "streams" },
  { algorithm: "token-bucket", capacity: 60, tokensPerSecond: 200, name: "bucket" },
  { algorithm: "sliding-log", limit: 40, windowMs: 500, name: "log" },
  { algorithm: "fixed-window", limit: 40, windowMs: 500, name: "window" },
];
/** The largest cost of a policy. */
const limitOf = (/** @type {any} */ { limit, capacity }) => limit ?? capacity;

const sleep = (/** @type {number} */ ms) => new Promise((resolve) => setTimeout(resolve, ms));
const now = () => Number(process.hrtime.bigint()) / 1e6;

/** Yields one row per claim. */
export async function* holds() {
  const seed = seedOf("SLUICE_SEED");
  const random = randomFrom(seed);
  const folder = mkdtempSync(join(tmpdir(), "sluice-holds-"));
  const server = await startRedis();
  const redis = new Redis(server.port);
  const store = redisStore(redis);
  const limiters = POLICIES.map((policy) =>
    createLimiter({ policy: policyFrom(policy), store, onStoreError: "throw" }),
  );
  /** @type {string[]} */
  const failures = [];
  const files = [];
  try {
    const start = (/** @type {number} */ slot) => {
      const name = `p${slot}.${files.length}`;
      const file = join(folder, `${name}.log`);
      files.push(file);
      writeFileSync(file, "");
      const settings = { port: server.port, name, seed: seed + files.length, file, callers: CALLERS, keys: KEYS };
      const all = JSON.stringify({ ...settings, policies: POLICIES, forMs: HOLD_MS });
      const child = fork(fileURLToPath(new URL("holds-child.js", import.meta.url)), [all]);
      return { child, name };
    };
    const children = Array.from({ length: PROCESSES }, (_, slot) => start(slot));
    /** Names of killed processes, and when their holds have ended. */
    const dead = [];
    let [kills, looks] = [0, 0];
    const endsAt = now() + SECONDS * 1000;
    while (now() < endsAt) {
      await sleep(KILL_EVERY_MS);
      const slot = random.whole(0, PROCESSES - 1);
      const { child, name } = children[slot];
      if (child.exitCode !== null) failures.push(`process ${name} exited with ${child.exitCode}`);
      await kill(child);
      kills++;
      dead.push({ name, goneAt: now() + HOLD_MS });
      children[slot] = start(slot);
      looks += await findOutlived(limiters, dead, failures);
    }
    for (const { child, name } of children) {
      await kill(child);
      dead.push({ name, goneAt: now() + HOLD_MS });
    }
    await sleep(HOLD_MS + CLOCK_MS);
    await findOutlived(limiters, dead, failures);
    const jobs = files.flatMap((file) => readJobs(file, failures));
    const where = ` (SLUICE_SEED=${seed})`;
    const settled = jobs.filter((job) => job.isSettled).length;
    yield {
      claim: "holds from 4 processes",
      details: `${jobs.length} jobs in ${SECONDS} s, ${settled} settled, ${kills} kills, ${looks} holds inspected; seed ${seed}`,
      failures: failures.map((text) => text + where),
    };
    for (const [part, policy] of POLICIES.entries()) {
      const own = jobs.filter((job) => job.part === part);
      const [least, excess] = checkBound(policy, own);
      yield {
        claim: `actual use, ${policy.algorithm}`,
        details: `${own.length} jobs, least room ${least.toFixed(2)} of ${limitOf(policy)}`,
        failures: excess.map((text) => text + where),
      };
    }
    // A debt is at most one limit, so everything has been refilled by then.
    await sleep(3000);
    const left = await redis.dbsize();
    yield {
      claim: "no key is left",
      details: `${left} keys`,
      failures: left === 0 ? [] : [`${left} keys left${where}`],
    };
  } finally {
    redis.disconnect();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Kills a process and waits for its end. */
function kill(/** @type {import("node:child_process").ChildProcess} */ child) {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve(undefined);
    child.once("exit", resolve);
    child.kill("SIGKILL");
  });
}

/** Inspects every key: no hold lasts longer than it was held for, or belongs to a process that has been dead for longer. */
async function findOutlived(limiters, dead, failures) {
  let count = 0;
  for (const limiter of limiters) {
    for (let k = 1; k <= KEYS; k++) {
      const askedAt = now();
      const { holds = [], policy } = await limiter.inspect(`k${k}`);
      count += holds.length;
      for (const { id, endsAfterMs } of holds) {
        if (endsAfterMs < 1 || endsAfterMs > HOLD_MS)
          failures.push(`${policy}: hold ${id} ends after ${endsAfterMs} ms`);
        // Ids start with the name of the process.
        const owner = dead.find(({ name }) => id.startsWith(`${name}-`));
        if (owner && askedAt > owner.goneAt + CLOCK_MS) failures.push(`${policy}: hold ${id} has outlived its process`);
      }
    }
  }
  return count;
}

/**
 * Reads the jobs of one process. A job runs from the reply to its hold until its settlement is sent, or its hold may have
 * ended: always within the time that the store counts.
 */
function readJobs(file, failures) {
  const jobs = [];
  const open = new Map();
  // The last line of a killed process may be incomplete.
  for (const line of readFileSync(file, "utf8").split("\n").slice(0, -1)) {
    const [event, ...fields] = JSON.parse(line);
    if (event === "failed") failures.push(fields[0]);
    const job = open.get(fields[0]);
    if (event === "held") {
      const [id, part, key, amount, sentAt, from] = fields;
      // The store has started to count between the two instants.
      const ends = { to: sentAt + HOLD_MS - CLOCK_MS, overAt: from + HOLD_MS + CLOCK_MS };
      open.set(id, { part, key, amount, actual: amount, from, ...ends, isSettled: false });
      jobs.push(open.get(id));
    } else if (event === "renewed") {
      const [id, sentAt, repliedAt] = fields;
      const ends = { to: sentAt + HOLD_MS - CLOCK_MS, overAt: repliedAt + HOLD_MS + CLOCK_MS };
      if (repliedAt <= job.to) Object.assign(job, ends);
      else {
        // It had ended, and was held again; or the reply was late, and it is one job, which is counted once.
        if (sentAt < job.overAt) job.actual = 0;
        open.set(id, { ...job, actual: job.amount, from: repliedAt, ...ends });
        jobs.push(open.get(id));
      }
    } else if (event === "settling") {
      const [, actual, sentAt] = fields;
      // What it uses beyond its estimate is an overrun, which no bound covers.
      Object.assign(job, { actual: Math.min(actual, job.amount), to: Math.min(job.to, sentAt) });
    } else if (event === "settled") [, job.isSettled] = fields;
  }
  return jobs.filter(({ from, to }) => to >= from);
}

/** Returns the least room that was left in any interval, and the intervals that exceed the bound. */
function checkBound(policy, jobs) {
  let least = Number.POSITIVE_INFINITY;
  const excess = [];
  const see = (/** @type {number} */ room, /** @type {string} */ where) => {
    least = Math.min(least, room);
    if (room < 0) excess.push(`${-room} too many ${where}`);
  };
  for (let k = 1; k <= KEYS; k++) {
    const own = jobs.filter(({ key }) => key === `k${k}`);
    if (policy.algorithm === "concurrency") atOnce(policy, own, see);
    else if (policy.algorithm === "token-bucket") overIntervals(policy, own, see);
    else inWindows(policy, own, see);
  }
  return [least, excess];
}

function atOnce({ limit }, jobs, see) {
  const changes = jobs.flatMap(({ from, to, amount }) => [
    { at: from, by: amount },
    { at: to, by: -amount },
  ]);
  // Those that end at an instant have left by then.
  changes.sort((a, b) => a.at - b.at || a.by - b.by);
  let held = 0;
  for (const { at, by } of changes) {
    held += by;
    see(limit - held, `at ${at}`);
  }
}

/** Over every interval, from the end of a job to the start of another one: capacity and rate. */
function overIntervals({ capacity, tokensPerSecond }, jobs, see) {
  const rate = tokensPerSecond / 1000;
  const starts = jobs.toSorted((a, b) => a.from - b.from);
  const ends = jobs.toSorted((a, b) => a.to - b.to);
  let [begun, over, next, lowest] = [0, 0, 0, Number.POSITIVE_INFINITY];
  for (const { from, actual } of starts) {
    begun += actual;
    // Jobs that run in an interval have begun before its end, and are not over before its start.
    for (; next < ends.length && ends[next].to <= from; next++) {
      lowest = Math.min(lowest, over - rate * ends[next].to);
      over += ends[next].actual;
    }
    if (lowest < Number.POSITIVE_INFINITY) {
      see(capacity + lowest - (begun - rate * (from + CLOCK_MS)), `in an interval that ends at ${from}`);
    }
  }
}

/** In every window of a log that starts at the end of a job. A fixed window is aligned to another clock. */
function inWindows({ limit, windowMs, algorithm }, jobs, see) {
  // Two aligned windows touch an interval that is as long as one.
  const bound = algorithm === "fixed-window" ? 2 * limit : limit;
  for (const { to: start } of jobs) {
    const end = start + windowMs - 2 * CLOCK_MS;
    let used = 0;
    for (const { from, to, actual } of jobs) if (from <= end && to >= start) used += actual;
    see(bound - used, `in ${windowMs} ms from ${start}`);
  }
}
