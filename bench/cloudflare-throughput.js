/** What a decision in Durable Objects costs, in real workerd: beside what articles show, and beside a bare call. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { install, workerdFolder } from "../runtime-tests/install.js";
import { bundle } from "../runtime-tests/workerd/bundle.js";
import { createMiniflare } from "../runtime-tests/workerd/serve.js";
import { figure, goal, goalTable, median, ratios, spread, table } from "./report.js";
import { ms, repeats } from "./settings.js";

export const title = "Durable Objects";

const LABELS = {
  "get-put": "get/put over fetch + JSON",
  bare: "bare object",
  "one-object": "sluice, one object",
  apart: "sluice, one object, a call for each",
  "16-objects": "sluice, 16 objects",
  "local-denial": "sluice, one object, default localDenialMs",
};
const SCENARIOS = {
  "grants, 64 together": { denied: false, together: true },
  "grants, one by one": { denied: false, together: false },
  "denials, 64 together": { denied: true, together: true },
  "denials, one by one": { denied: true, together: false },
};
const KEY_COUNTS = { "1000 keys": 1000, "one key": 1 };
/** A Worker lives for hours: nobody is measured before its code is compiled. */
const WARM_UP_MS = Math.max(ms, Math.min(1000, 5 * ms));
/** The clock inside of workerd may seem to lag behind ours by the way there and back, and by no more. */
const MOST_LAG_MS = 50 + ms / 10;

/** Where a contender would do the same as in another row, it is not measured. */
function measured(name, { denied, together }) {
  if (name === "apart") return together;
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

/** A workerd for each contender, so that what the engine learns from one can't disturb another. */
async function start(script, durableObjectsPersist) {
  // An object that is asked all the time stays in memory. These wait for their turns, and would be put away meanwhile.
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
    // Each round begins with another contender: what runs first must not always be the same.
    const turns = names.map((_, i) => names[(i + repeat) % names.length]);
    for (const [keys, keyCount] of Object.entries(KEY_COUNTS)) {
      for (const [label, scenario] of Object.entries(SCENARIOS)) {
        for (const name of turns.filter((name) => measured(name, scenario))) {
          const result = await ask(workers[name].url, { name, ...scenario, keyCount, forMs });
          const list = (results[name][`${keys}: ${label}`] ??= []);
          if (repeat > 0) list.push(result);
        }
      }
    }
  }
  return results;
}

/** One loop inside of the Worker, which is timed there: the way there and back is not in it. */
async function ask(url, task) {
  const start = performance.now();
  const response = await fetch(url, { method: "POST", body: JSON.stringify(task) });
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  const { elapsed, decisions, calls } = JSON.parse(text);
  const lagMs = performance.now() - start - elapsed;
  return { perMs: decisions / elapsed, callsForRound: (64 * calls) / decisions, lagMs };
}

/** At Cloudflare the clock of a Worker stands still while it computes. Here it goes on; if not, no figure is right. */
function checkClock(results) {
  const lags = Object.values(results).flatMap((scenarios) =>
    Object.values(scenarios)
      .flat()
      .map(({ lagMs }) => lagMs),
  );
  const lag = median(lags);
  if (Math.abs(lag) > MOST_LAG_MS) throw new Error(`the clock inside of workerd is ${figure(lag)} ms behind`);
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
    const calls = results[name][`${keys}: denials, 64 together`].map(({ callsForRound }) => callsForRound);
    return [LABELS[name], ...cells, figure(median(calls))];
  });
  return table([`${keys}, thousand decisions a second`, ...labels, "calls for 64 denials"], rows);
}

function goalsOf(results, keys) {
  const speed = (name, label) => speeds(results, name, `${keys}: ${label}`);
  const own = (label) => speed("one-object", label);
  const row = (what, a, b, bound) => goal(`${keys}: ${what}`, ratios(a, b), ">=", bound, "x");
  const [grants, grantsInTurn, denials, denialsInTurn] = Object.keys(SCENARIOS);
  return [
    row(`${grants}: sluice / get/put`, own(grants), speed("get-put", grants), 3),
    row(`${denials}: sluice / bare object`, own(denials), speed("bare", denials), 0.7),
    row(`${denialsInTurn}: sluice / bare object`, own(denialsInTurn), speed("bare", denialsInTurn), 0.7),
    row(`${grants}: in one call / a call for each`, own(grants), speed("apart", grants), 2),
    row("grants: 64 together / one by one", own(grants), own(grantsInTurn), 2),
  ];
}
