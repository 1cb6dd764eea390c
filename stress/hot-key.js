/**
 * Charges one Redis key from 4 processes with 64 calls in flight each: 1 000 000 decisions, once without and once with
 * cached denials. The logs are checked afterwards: no more is admitted than the bound (O1), every number equals the pure
 * function's in the server's order (O2), that order agrees with real time (O3), and no less is admitted than is due (O4).
 */
import { fork } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { compilePolicy, decide } from "../dist/algorithms.js";
import { scaled } from "../scripts/scale.js";
import { startRedis } from "../test/servers/redis-server.js";

const PROCESSES = 4;
const IN_FLIGHT = 64;
const DECISIONS = scaled(1_000_000);
/** Cached denials need a slow rate: a denial that ends within a millisecond is not cached. */
const POLICIES = {
  off: { capacity: 2000, tokensPerSecond: 5000, name: "hot" },
  on: { capacity: 2000, tokensPerSecond: 200, name: "hot" },
};
const MAX_COST = 3;
/** Numbers per reply of the store: number of the decision, server time, reply. */
const REPLY_FIELDS = 3;
/** Numbers per decision that a caller received. */
const DECISION_FIELDS = 8;

/** Yields one row per claim. */
export async function* hotKey() {
  yield* await run("off");
  yield* await run("on");
}

async function run(/** @type {"off" | "on"} */ cachedDenials) {
  const policy = POLICIES[cachedDenials];
  const localDenialMs = cachedDenials === "on" ? 1000 : 0;
  const folder = mkdtempSync(join(tmpdir(), "sluice-hot-key-"));
  const server = await startRedis();
  try {
    const files = Array.from({ length: PROCESSES }, (_, i) => join(folder, `${i}.log`));
    const children = files.map((file) => {
      const decisions = DECISIONS / PROCESSES;
      const settings = { port: server.port, policy, decisions, inFlight: IN_FLIGHT, localDenialMs, file };
      return fork(fileURLToPath(new URL("hot-key-child.js", import.meta.url)), [JSON.stringify(settings)]);
    });
    const next = (/** @type {import("node:child_process").ChildProcess} */ child) =>
      new Promise((resolve, reject) => {
        child.once("message", resolve);
        child.once("exit", (code) => reject(new Error(`a process exited with ${code}`)));
      });
    await Promise.all(children.map(next));
    for (const child of children) child.send("go");
    const start = performance.now();
    const totals = await Promise.all(children.map(next));
    const seconds = (performance.now() - start) / 1000;
    const log = files.flatMap((file) => readLog(file, cachedDenials === "off"));
    const total = (/** @type {string} */ field) => totals.reduce((sum, each) => sum + each[field], 0);
    const details = `${DECISIONS} decisions in ${seconds.toFixed(1)} s, ${total("fromStore")} from the store, ${total("cached")} cached`;
    return [
      { claim: `hot key, cached denials ${cachedDenials}`, details, failures: [] },
      ...check(policy, log, total("allowed"), cachedDenials === "off"),
    ];
  } finally {
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Reads the log of one process: the store's replies and, if every decision came from the store, the callers' decisions. */
function readLog(/** @type {string} */ file, /** @type {boolean} */ complete) {
  const bytes = readFileSync(file);
  const all = new Float64Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 8);
  const count = all[0] / REPLY_FIELDS;
  const decisions = all.subarray(1 + REPLY_FIELDS * count);
  if (complete && decisions.length !== count * DECISION_FIELDS) {
    throw new Error(
      `the store sent ${count} replies, but callers received ${decisions.length / DECISION_FIELDS} decisions`,
    );
  }
  return Array.from({ length: count }, (_, i) => ({
    number: all[1 + REPLY_FIELDS * i],
    now: all[2 + REPLY_FIELDS * i],
    reply: all[3 + REPLY_FIELDS * i],
    received: complete ? decisions.subarray(i * DECISION_FIELDS, (i + 1) * DECISION_FIELDS) : undefined,
  }));
}

/** Replays a log against the bound, the pure function and real time. */
function check(
  /** @type {{ capacity: number, tokensPerSecond: number }} */ options,
  /** @type {ReturnType<typeof readLog>} */ log,
  /** @type {number} */ allowed,
  /** @type {boolean} */ complete,
) {
  const policy = compilePolicy(options);
  log.sort((a, b) => a.number - b.number);
  const { unitsPerMs, unitsPerToken, capacityUnits } = policy;
  const failures = { O1: [], O2: [], O3: [], O4: [] };
  const fail = (/** @type {keyof typeof failures} */ oracle, /** @type {string} */ text) => failures[oracle].push(text);
  let [level, at, admitted, latestStart, state] = [0, log[0].now, 0, 0, undefined];
  // Units that a full bucket could not hold, and the totals at the last denial. The load saturates the bucket only until
  // then: afterwards the last calls may leave tokens that arrived in the same millisecond.
  let overflow = 0;
  let atLastDenial = { elapsedMs: 0, admitted: 0, overflow: 0 };
  log.forEach(({ number, now, reply, received }, i) => {
    if (number !== i + 1) fail("O2", `decision ${i + 1} of the key is missing or duplicated`);
    if (now < at) fail("O2", `time went backwards at decision ${number}`);
    const granted = reply >= 0;
    // A reply holds the level after the decision, which reveals its cost.
    const refill = (now - at) * unitsPerMs;
    const before = Math.max(0, level - refill);
    overflow += Math.max(0, refill - level);
    const cost = granted ? (reply - before) / unitsPerToken : 0;
    level = granted ? before + cost * unitsPerToken : before;
    at = now;
    if (granted) admitted += cost;
    else atLastDenial = { elapsedMs: now - log[0].now, admitted, overflow };
    if (level > capacityUnits) fail("O1", `${level} of ${capacityUnits} units in use at ${now}`);
    if (granted && ![1, 2, 3].includes(cost)) fail("O1", `decision ${number} took a cost of ${cost}`);
    if (!granted && -1 - reply !== before)
      fail("O2", `decision ${number} was denied at level ${-1 - reply} instead of ${before}`);
    if (!received) return;
    const [start, end, requestedCost, wasAllowed, remaining, reset, next, retry] = received;
    const outcome = decide(state, { policy, key: "hot", cost: requestedCost, mode: "take" }, now);
    if (outcome.changed) state = outcome.state;
    const { decision } = outcome;
    const expected = [
      Number(decision.allowed),
      decision.remaining,
      decision.resetAfterMs,
      decision.nextAfterMs,
      decision.allowed ? 0 : (decision.retryAfterMs ?? -1),
    ];
    if (String(expected) !== String([wasAllowed, remaining, reset, next, retry])) {
      fail("O2", `decision ${number}: ${[wasAllowed, remaining, reset, next, retry]} instead of ${expected}`);
    }
    if (end < latestStart) fail("O3", `decision ${number} was returned before an earlier one was requested`);
    latestStart = Math.max(latestStart, start);
  });
  const elapsedMs = at - log[0].now;
  const bound = Math.floor(options.capacity + (options.tokensPerSecond * elapsedMs) / 1000);
  const dueTokens = options.capacity + (options.tokensPerSecond * atLastDenial.elapsedMs) / 1000;
  const least = Math.ceil(dueTokens - atLastDenial.overflow / unitsPerToken - MAX_COST);
  if (admitted > bound) fail("O1", `${admitted} admitted of ${bound}`);
  if (atLastDenial.admitted < least) fail("O4", `${atLastDenial.admitted} admitted, at least ${least} due`);
  const grants = log.filter(({ reply }) => reply >= 0).length;
  if (grants !== allowed) fail("O2", `the store allowed ${grants}, callers counted ${allowed}`);
  return [
    {
      claim: "  O1 bound",
      details: `${admitted} admitted in ${elapsedMs} ms, bound ${bound}, over: ${failures.O1.length}`,
      failures: failures.O1,
    },
    {
      claim: "  O2 exact replay",
      details: complete
        ? `${log.length} decisions, every number; differences: ${failures.O2.length}`
        : `${log.length} replies; differences: ${failures.O2.length}`,
      failures: failures.O2,
    },
    ...(complete ? [{ claim: "  O3 order", details: `violations: ${failures.O3.length}`, failures: failures.O3 }] : []),
    {
      claim: "  O4 liveness",
      details: `${atLastDenial.admitted} admitted by the last denial, at least ${least} due, too few: ${failures.O4.length}`,
      failures: failures.O4,
    },
  ];
}
