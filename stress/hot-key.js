/**
 * 4 processes with 64 calls in flight each on one key of one Redis: 1 000 000 decisions, once with every decision
 * made by the store and once with local denial. The logs are checked offline: nothing over the bound (O1), every
 * figure equal to the pure function's in the server's order (O2), that order agrees with real time (O3), and nobody
 * starves (O4).
 */
import { fork } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { compilePolicy, decide } from "../dist/algorithms.js";
import { startRedis } from "../test/servers/redis-server.js";

const PROCESSES = 4;
const IN_FLIGHT = 64;
const DECISIONS = Number(process.env.SLUICE_DECISIONS ?? 1_000_000);
/** A slow one beside local denial: it needs a wait that is worth remembering. */
const POLICIES = {
  off: { capacity: 2000, tokensPerSecond: 5000, name: "hot" },
  on: { capacity: 2000, tokensPerSecond: 200, name: "hot" },
};
const HIGHEST_COST = 3;
const GOT = 8;

/** Runs both halves; gives a line for each claim. */
export async function* hotKey() {
  yield* await run("off");
  yield* await run("on");
}

async function run(/** @type {"off" | "on"} */ localDenial) {
  const policy = POLICIES[localDenial];
  const localDenialMs = localDenial === "on" ? 1000 : 0;
  const place = mkdtempSync(join(tmpdir(), "sluice-hot-key-"));
  const server = await startRedis();
  try {
    const files = Array.from({ length: PROCESSES }, (_, i) => join(place, `${i}.log`));
    const children = files.map((file) => {
      const decisions = DECISIONS / PROCESSES;
      const settings = { port: server.port, policy, decisions, inFlight: IN_FLIGHT, localDenialMs, file };
      return fork(fileURLToPath(new URL("hot-key-child.js", import.meta.url)), [JSON.stringify(settings)]);
    });
    const next = (/** @type {import("node:child_process").ChildProcess} */ child) =>
      new Promise((resolve, reject) => {
        child.once("message", resolve);
        child.once("exit", (code) => reject(new Error(`a process ended with ${code}`)));
      });
    await Promise.all(children.map(next));
    for (const child of children) child.send("go");
    const start = performance.now();
    const sums = await Promise.all(children.map(next));
    const seconds = (performance.now() - start) / 1000;
    const log = files.flatMap((file) => readLog(file, localDenial === "off"));
    const total = (/** @type {string} */ of) => sums.reduce((sum, each) => sum + each[of], 0);
    const figures = `${DECISIONS} decisions in ${seconds.toFixed(1)} s, ${total("asked")} by the store, ${total("local")} from memory`;
    return [
      { claim: `hot key, local denial ${localDenial}`, figures, failures: [] },
      ...check(policy, log, total("allowed"), localDenial === "off"),
    ];
  } finally {
    await server.stop();
    rmSync(place, { recursive: true, force: true });
  }
}

/** Entries of one process: what the server told and, when all came from it, what the caller got. */
function readLog(/** @type {string} */ file, /** @type {boolean} */ complete) {
  const bytes = readFileSync(file);
  const all = new Float64Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 8);
  const count = all[0] / 3;
  const got = all.subarray(1 + 3 * count);
  if (complete && got.length !== count * GOT) throw new Error(`${count} were told and ${got.length / GOT} got`);
  return Array.from({ length: count }, (_, i) => ({
    number: all[1 + 3 * i],
    now: all[2 + 3 * i],
    reply: all[3 + 3 * i],
    got: complete ? got.subarray(i * GOT, (i + 1) * GOT) : undefined,
  }));
}

function check(
  /** @type {{ capacity: number, tokensPerSecond: number }} */ policy,
  /** @type {ReturnType<typeof readLog>} */ log,
  /** @type {number} */ allowed,
  /** @type {boolean} */ complete,
) {
  const policy = compilePolicy(policy);
  log.sort((a, b) => a.number - b.number);
  const { unitsPerMs: p, unitsPerToken: unit, capacityUnits: cap } = policy;
  const failures = { O1: [], O2: [], O3: [], O4: [] };
  const fail = (/** @type {keyof typeof failures} */ oracle, /** @type {string} */ text) => failures[oracle].push(text);
  let [level, at, admitted, latestStart, state] = [0, log[0].now, 0, 0, undefined];
  log.forEach(({ number, now, reply, got }, i) => {
    if (number !== i + 1) fail("O2", `decision ${i + 1} of the key is missing or double`);
    if (now < at) fail("O2", `time went back at ${number}`);
    const granted = reply >= 0;
    // What a decision took shows in the level that it left.
    const before = Math.max(0, level - (now - at) * p);
    const cost = granted ? (reply - before) / unit : 0;
    level = granted ? before + cost * unit : before;
    at = now;
    if (granted) admitted += cost;
    if (level > cap) fail("O1", `${level} units in use of ${cap} at ${now}`);
    if (granted && ![1, 2, 3].includes(cost)) fail("O1", `a cost of ${cost} at ${number}`);
    if (!granted && -1 - reply !== before) fail("O2", `denied at ${-1 - reply}, not ${before}`);
    if (!got) return;
    const [start, end, asked, said, remaining, reset, next, retry] = got;
    const outcome = decide(state, { policy, key: "hot", cost: asked, mode: "take" }, now);
    if (outcome.changed) state = outcome.state;
    const { decision } = outcome;
    const expected = [
      Number(decision.allowed),
      decision.remaining,
      decision.resetAfterMs,
      decision.nextAfterMs,
      decision.allowed ? 0 : (decision.retryAfterMs ?? -1),
    ];
    if (String(expected) !== String([said, remaining, reset, next, retry])) {
      fail("O2", `${number}: ${[said, remaining, reset, next, retry]} instead of ${expected}`);
    }
    if (end < latestStart) fail("O3", `${number} was answered before an earlier one was asked`);
    latestStart = Math.max(latestStart, start);
  });
  const elapsedMs = at - log[0].now;
  const bound = Math.floor(policy.capacity + (policy.tokensPerSecond * elapsedMs) / 1000);
  const least = Math.ceil(policy.capacity + (policy.tokensPerSecond * elapsedMs) / 1000 - HIGHEST_COST);
  if (admitted > bound) fail("O1", `${admitted} admitted of ${bound}`);
  if (admitted < least) fail("O4", `${admitted} admitted, at least ${least} due`);
  const grants = log.filter(({ reply }) => reply >= 0).length;
  if (grants !== allowed) fail("O2", `${grants} allowed by the store, ${allowed} by the callers' count`);
  return [
    {
      claim: "  O1 bound",
      figures: `${admitted} admitted in ${elapsedMs} ms, bound ${bound}, over: ${failures.O1.length}`,
      failures: failures.O1,
    },
    {
      claim: "  O2 exact replay",
      figures: complete
        ? `${log.length} decisions, every figure; differences: ${failures.O2.length}`
        : `${log.length} replies; differences: ${failures.O2.length}`,
      failures: failures.O2,
    },
    ...(complete ? [{ claim: "  O3 order", figures: `violations: ${failures.O3.length}`, failures: failures.O3 }] : []),
    { claim: "  O4 liveness", figures: `at least ${least} due, starved: ${failures.O4.length}`, failures: failures.O4 },
  ];
}
