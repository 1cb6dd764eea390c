/** Measures decisions of Durable Objects in workerd, compared with the usual get/put object and with a bare RPC call. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { install, workerdFolder } from "../runtime-tests/install.js";
import { bundle } from "../runtime-tests/workerd/bundle.js";
import { createMiniflare } from "../runtime-tests/workerd/serve.js";
import { formatNumber, goal, goalTable, median, ratios, spread, table } from "./report.js";
import { ms, repeats } from "./settings.js";

export const title = "Durable Objects";

const LABELS = {
  "get-put": "get/put over fetch + JSON",
  bare: "bare object",
  "one-object": "sluice, one object",
  unbatched: "sluice, one object, not batched",
  "16-objects": "sluice, 16 objects",
  "local-denial": "sluice, one object, default localDenialMs",
};
const SCENARIOS = {
  "grants, 64 concurrent": { denied: false, concurrent: true },
  "grants, sequential": { denied: false, concurrent: false },
  "denials, 64 concurrent": { denied: true, concurrent: true },
  "denials, sequential": { denied: true, concurrent: false },
};
const KEY_COUNTS = { "1000 keys": 1000, "one key": 1 };
/** Warm up until the code is compiled: a Worker runs for hours. */
const WARM_UP_MS = Math.max(ms, Math.min(1000, 5 * ms));
/** Maximum lag of the clock in workerd, in ms: the round trip of a request. */
const MAX_LAG_MS = 50 + ms / 10;

/** Whether a contender differs from another row in this scenario. */
function isMeasured(name, { denied, concurrent }) {
  if (name === "unbatched") return concurrent;
  return name === "local-denial" ? denied : true;
}

export async function run(progress) {
  install(workerdFolder);
  const folder = await mkdtemp(join(tmpdir(), "sluice-bench-"));
  const workers = {};
  try {
    progress("start");
    const script = await bundle(fileURLToPath(new URL("cloudflare-worker.js", import.meta.url)), "esm");
    for (const name of Object.keys(LABELS)) workers[name] = await start(script, join(folder, name));
    const results = await measureAll(workers, progress);
    checkClock(results);
    return await report(results);
  } finally {
    await Promise.all(Object.values(workers).map(({ stop }) => stop()));
    await rm(folder, { recursive: true, force: true });
  }
}

/** Starts a workerd per contender: the engine's optimisations for one must not affect another. */
async function start(script, durableObjectsPersist) {
  // Objects in use stay in memory. These would be evicted between their measurements.
  const sqlite = (className) => ({ className, useSQLite: true, unsafePreventEviction: true });
  const durableObjects = { GET_PUT: sqlite("GetPut"), BARE: sqlite("Bare"), RATE_LIMITER: sqlite("RateLimiterDO") };
  const miniflare = await createMiniflare({ modules: true, script, durableObjects, durableObjectsPersist });
  return { url: await miniflare.ready, stop: () => miniflare.dispose() };
}

async function measureAll(workers, progress) {
  const names = Object.keys(workers);
  const results = Object.fromEntries(names.map((name) => [name, {}]));
  for (let repeat = 0; repeat <= repeats; repeat++) {
    progress(repeat === 0 ? "warm-up" : `repeat ${repeat} of ${repeats}`);
    const forMs = repeat === 0 ? WARM_UP_MS : ms;
    // Rotate the order: the first measurement of a round must not always be the same contender's.
    const turns = names.map((_, i) => names[(i + repeat) % names.length]);
    for (const [keys, keyCount] of Object.entries(KEY_COUNTS)) {
      for (const [label, scenario] of Object.entries(SCENARIOS)) {
        for (const name of turns.filter((name) => isMeasured(name, scenario))) {
          const result = await runLoop(workers[name].url, { name, ...scenario, keyCount, forMs });
          const list = (results[name][`${keys}: ${label}`] ??= []);
          if (repeat > 0) list.push(result);
        }
      }
    }
  }
  return results;
}

/** Runs one loop inside the Worker, which measures its own time: without the round trip. */
async function runLoop(url, task) {
  const start = performance.now();
  const response = await fetch(url, { method: "POST", body: JSON.stringify(task) });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  const { elapsed, decisions, calls } = JSON.parse(text);
  const lagMs = performance.now() - start - elapsed;
  return { perMs: decisions / elapsed, callsForRound: (64 * calls) / decisions, lagMs };
}

/** On Cloudflare the clock of a Worker does not advance during computation. Check that it does here. */
function checkClock(results) {
  const lags = Object.values(results).flatMap((scenarios) =>
    Object.values(scenarios)
      .flat()
      .map(({ lagMs }) => lagMs),
  );
  const lag = median(lags);
  if (Math.abs(lag) > MAX_LAG_MS)
    throw new Error(`The clock in workerd is ${formatNumber(lag)} ms behind, so the results are invalid.`);
}

const speeds = (results, name, where) => results[name][where].map(({ perMs }) => perMs);

async function report(results) {
  const { dependencies } = JSON.parse(await readFile(join(workerdFolder, "package.json"), "utf8"));
  const tables = Object.keys(KEY_COUNTS).map((keys) => tableOf(results, keys));
  const goals = Object.keys(KEY_COUNTS).flatMap((keys) => goalsOf(results, keys));
  return [`workerd of miniflare ${dependencies.miniflare}.`, ...tables, goalTable(goals)];
}

function tableOf(results, keys) {
  const labels = Object.keys(SCENARIOS);
  const rows = Object.keys(LABELS).map((name) => {
    const cells = labels.map((label) =>
      results[name][`${keys}: ${label}`] ? spread(speeds(results, name, `${keys}: ${label}`)) : "-",
    );
    const calls = results[name][`${keys}: denials, 64 concurrent`].map(({ callsForRound }) => callsForRound);
    return [LABELS[name], ...cells, formatNumber(median(calls))];
  });
  return table([`${keys}, thousand decisions per second`, ...labels, "calls for 64 denials"], rows);
}

function goalsOf(results, keys) {
  const speed = (name, label) => speeds(results, name, `${keys}: ${label}`);
  const own = (label) => speed("one-object", label);
  const row = (title, a, b, bound) => goal(`${keys}: ${title}`, ratios(a, b), ">=", bound, "x");
  const [grants, sequentialGrants, denials, sequentialDenials] = Object.keys(SCENARIOS);
  return [
    row(`${grants}: sluice / get/put`, own(grants), speed("get-put", grants), 3),
    row(`${denials}: sluice / bare object`, own(denials), speed("bare", denials), 0.7),
    row(`${sequentialDenials}: sluice / bare object`, own(sequentialDenials), speed("bare", sequentialDenials), 0.7),
    row(`${grants}: batched / not batched`, own(grants), speed("unbatched", grants), 2),
    row("grants: 64 concurrent / sequential", own(grants), own(sequentialGrants), 2),
  ];
}
