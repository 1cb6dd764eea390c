/** Measures decisions per second in memory, of every contender and of each algorithm of sluice. */
import { AMPLE, algorithmRows, contenders, peers, SPENT } from "./contenders.js";
import { freshKeys, uniformOrder, zipfOrder } from "./keys.js";
import { measureInChild } from "./measure-in-child.js";
import { goal, goalTable, median, ratios, spread, table } from "./report.js";
import { ms, repeats, scaled } from "./settings.js";

export const title = "Throughput in memory";

const BATCH = 1000;
const MILLION = 2 ** 20;

/** `count` keys in the order of `order()`. `fresh` builds a new string for every call. */
const scenarios = {
  hot: { count: 1, order: () => new Uint32Array(1) },
  denied: { count: 1, order: () => new Uint32Array(1), limits: SPENT },
  "10k": { count: 10_000, order: (count) => uniformOrder(count, 2 ** 16) },
  fresh: { count: 16_000, order: (count) => uniformOrder(count, 2 ** 16), fresh: true },
  zipf: { count: scaled(1e6), order: (count) => zipfOrder(count, MILLION), limits: { ...AMPLE, maxKeys: MILLION } },
};
const combined = ["sluice-one-of-three", "sluice-combined"];
const rows = Object.keys(contenders).filter((name) => !combined.includes(name) && !algorithmRows.includes(name));
/** The scenarios of the rows per algorithm. */
const ALGORITHM_SCENARIOS = ["hot", "10k"];

function runsIn(scenario, name) {
  if (combined.includes(name)) return scenario === "hot";
  return !algorithmRows.includes(name) || ALGORITHM_SCENARIOS.includes(scenario);
}

export async function run(progress) {
  const speeds = Object.fromEntries(Object.keys(contenders).map((name) => [name, {}]));
  for (const scenario of Object.keys(scenarios)) {
    const names = Object.keys(contenders).filter((name) => runsIn(scenario, name));
    for (const name of names) speeds[name][scenario] = [];
    for (let repeat = 1; repeat <= repeats; repeat++) {
      progress(`${scenario}, repeat ${repeat} of ${repeats}`);
      for (const name of names) {
        speeds[name][scenario].push(await measureInChild("memory-throughput", { name, scenario }));
      }
    }
  }
  const head = ["million decisions per second", "API", ...Object.keys(scenarios)];
  const body = rows.map((name) => {
    const { label, api } = contenders[name];
    return [label, api, ...Object.keys(scenarios).map((scenario) => spread(speeds[name][scenario]))];
  });
  const algorithmHead = ["million decisions per second, consumeSync", ...ALGORITHM_SCENARIOS];
  const algorithmBody = algorithmRows.map((name) => [
    contenders[name].label,
    ...ALGORITHM_SCENARIOS.map((scenario) => spread(speeds[name][scenario])),
  ]);
  return [table(head, body), table(algorithmHead, algorithmBody), goalTable(goals(speeds))];
}

function goals(speeds) {
  const against = (name, peer, scenario) => ratios(speeds[name][scenario], speeds[peer][scenario]);
  const best = (scenario) => peers.toSorted((a, b) => median(speeds[b][scenario]) - median(speeds[a][scenario]))[0];
  const bestHot = best("hot");
  const bestZipf = best("zipf");
  // A ratio of times, not of speeds: the arguments are swapped.
  const combineTimes = against("sluice-one-of-three", "sluice-combined", "hot");
  return [
    goal("hot: consumeSync / express-rate-limit", against("sluice", "express", "hot"), ">=", 1.8, "x"),
    goal("10k: consumeSync / express-rate-limit", against("sluice", "express", "10k"), ">=", 1.8, "x"),
    goal("hot: consumeSync / rate-limiter-flexible", against("sluice", "flexible", "hot"), ">=", 4, "x"),
    goal("10k: consumeSync / rate-limiter-flexible", against("sluice", "flexible", "10k"), ">=", 4, "x"),
    goal("denied: consumeSync / rate-limiter-flexible", against("sluice", "flexible", "denied"), ">=", 20, "x"),
    goal(`zipf: consumeSync / best peer (${bestZipf})`, against("sluice", bestZipf, "zipf"), ">=", 1.2, "x"),
    goal(`hot: stored clock / best peer (${bestHot})`, against("sluice-stored-clock", bestHot, "hot"), ">=", 2, "x"),
    goal("hot: consume / express-rate-limit", against("sluice-promise", "express", "hot"), ">=", 0.9, "x"),
    goal("hot: time of combine of 3 / one of them", combineTimes, "<=", 2.5, "x"),
  ];
}

/** Million decisions per second of one contender in one scenario. */
export async function measure({ name, scenario }) {
  const { count, order: orderOf, fresh, limits = AMPLE } = scenarios[scenario];
  const { api, make } = contenders[name];
  const { hit, denied, tick } = await make(limits);
  const order = orderOf(count);
  const mask = order.length - 1;
  const build = freshKeys(count);
  const keys = Array.from({ length: fresh ? 0 : count }, (_, i) => build(i));
  const keyAt = fresh ? (i) => build(order[i & mask]) : (i) => keys[order[i & mask]];
  const batch = api === "promise" ? awaitBatch : callBatch;

  // Every key has a bucket before the measurement starts.
  for (let i = 0; i < count; i++) await hit(build(i));
  await timeBatches(batch, hit, keyAt, tick);
  const speed = await timeBatches(batch, hit, keyAt, tick);
  if (denied && denied(globalThis.result) !== (limits === SPENT))
    throw new Error(`${name} made a wrong decision in ${scenario}`);
  return speed;
}

async function timeBatches(batch, hit, keyAt, tick) {
  const start = performance.now();
  let done = 0;
  let elapsed = 0;
  while (elapsed < ms) {
    tick?.();
    await batch(hit, keyAt, done);
    done += BATCH;
    elapsed = performance.now() - start;
  }
  return done / elapsed / 1000;
}

// Results are stored in a global: otherwise the engine could remove the allocation of an unused result.
function callBatch(hit, keyAt, from) {
  for (let i = from; i < from + BATCH; i++) globalThis.result = hit(keyAt(i));
}

async function awaitBatch(hit, keyAt, from) {
  for (let i = from; i < from + BATCH; i++) {
    try {
      globalThis.result = await hit(keyAt(i));
    } catch (denial) {
      globalThis.result = denial;
    }
  }
}
