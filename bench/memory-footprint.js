/** Measures bytes per key, and memory and event-loop stalls during a flood of new keys. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { getHeapStatistics } from "node:v8";
import { AMPLE, contenders, peers } from "./contenders.js";
import { freshKeys } from "./keys.js";
import { measureInChild } from "./measure-in-child.js";
import { formatNumber, goal, goalTable, median, spread, table } from "./report.js";
import { repeats, scaled } from "./settings.js";

export const title = "Memory, and a flood of new keys";

const KEYS = scaled(1e6);
const NEW_KEYS = scaled(5e6);
const CHUNK = 1000;
const FLAGS = ["--expose-gc", "--max-old-space-size=4096"];
/** A charge takes 10 s to refill: every key of the flood stays in use. */
const SLOW = { limit: 100, perSecond: 0.1 };

const perKey = ["sluice", "naive", ...peers];
const floods = [
  { name: "sluice", maxKeys: 100_000, note: "maxKeys 100 000", goalMs: 20 },
  { name: "sluice", maxKeys: 1_000_000, note: "maxKeys 1 000 000", goalMs: 50 },
  { name: "naive", note: "unbounded" },
  { name: "hono", note: "two windows" },
  { name: "express", note: "two windows" },
  { name: "fastify", maxKeys: 5000, note: "its default, LRU of 5000" },
];

export async function run(progress) {
  const bytes = {};
  for (const name of perKey) {
    progress(`bytes per key, ${name}`);
    const maxKeys = name === "sluice" ? 2 ** 20 : undefined;
    bytes[name] = await measureInChild("memory-footprint", { name, maxKeys }, FLAGS);
  }
  const runs = floods.map(() => []);
  // A flood takes seconds, so three repeats are enough.
  const rounds = Math.min(repeats, 3);
  for (let repeat = 1; repeat <= rounds; repeat++) {
    for (const [i, { name, maxKeys, note }] of floods.entries()) {
      progress(`flood, repeat ${repeat} of ${rounds}, ${name}, ${note}`);
      runs[i].push(await measureInChild("memory-footprint", { name, maxKeys, flood: true }, FLAGS));
    }
  }
  const column = (i, field) => runs[i].map((run) => run[field]);
  const floodRows = floods.map(({ name, note }, i) => [
    `${contenders[name].label}, ${note}`,
    ...["liveMb", "peakMb", "speed", "stallMs"].map((field) => spread(column(i, field))),
    ...["size", "evictions"].map((field) => (field in runs[i][0] ? formatNumber(median(column(i, field))) : "-")),
  ]);
  const perKeyRows = perKey.map((name) => [contenders[name].label, formatNumber(bytes[name])]);
  const floodHead = ["live MB", "peak MB", "M calls/s", "longest stall ms", "size", "evictions"];
  return [
    table([`${KEYS} keys`, "bytes per key"], perKeyRows),
    table([`flood of ${NEW_KEYS} new keys`, ...floodHead], floodRows),
    goalTable([
      goal(`bytes per key at ${KEYS} keys`, [bytes.sluice], "<=", 96, " B"),
      ...floods.flatMap(({ note, goalMs }, i) => {
        return goalMs ? [goal(`longest stall in a flood, ${note}`, column(i, "stallMs"), "<=", goalMs, " ms")] : [];
      }),
    ]),
  ];
}

export async function measure({ name, maxKeys, flood }) {
  const limits = { ...(flood ? SLOW : AMPLE), maxKeys };
  const contender = await contenders[name].make(limits);
  const keyAt = freshKeys(flood ? NEW_KEYS : KEYS);
  // Referenced until the end: otherwise it could be collected before the measurement.
  globalThis.held = { contender, keyAt };
  return flood ? floodKeys(contender, keyAt) : bytesPerKey(contender, keyAt);
}

async function bytesPerKey({ hit }, keyAt) {
  await warmUp(hit);
  const before = await liveBytes();
  for (let i = 0; i < KEYS; i++) globalThis.result = await hit(keyAt(i));
  return ((await liveBytes()) - before) / KEYS;
}

async function floodKeys({ hit, store }, keyAt) {
  await warmUp(hit);
  const before = await liveBytes();
  const start = performance.now();
  let stallMs = 0;
  let peak = 0;
  for (let from = 0; from < NEW_KEYS; from += CHUNK) {
    const begin = performance.now();
    await floodChunk(hit, keyAt, from);
    const done = performance.now();
    await nextTurn();
    // Garbage collection may also run between turns.
    stallMs = Math.max(stallMs, done - begin, performance.now() - done);
    peak = Math.max(peak, usedBytes());
  }
  const speed = NEW_KEYS / (performance.now() - start) / 1000;
  const { size, evictions } = store ?? {};
  const liveMb = ((await liveBytes()) - before) / 1e6;
  return { liveMb, peakMb: (peak - before) / 1e6, speed, stallMs, size, evictions };
}

async function floodChunk(hit, keyAt, from) {
  for (let i = from; i < from + CHUNK; i++) {
    const result = hit(keyAt(i));
    globalThis.result = result instanceof Promise ? await result : result;
  }
}

/** Compiles the code first: it is not part of the memory of a key. */
async function warmUp(hit) {
  for (let i = 0; i < 50; i++) await hit("warm-up");
}

/** Bytes in use after garbage collection. */
async function liveBytes() {
  for (let i = 0; i < 3; i++) {
    globalThis.gc();
    await nextTurn();
  }
  return usedBytes();
}

/** Heap and external memory, which holds array buffers. */
function usedBytes() {
  const { used_heap_size, external_memory } = getHeapStatistics();
  return used_heap_size + external_memory;
}
