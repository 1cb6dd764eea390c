/** What a key costs in memory, and what a flood of new keys does to memory and to the event loop. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { getHeapStatistics } from "node:v8";
import { AMPLE, contenders, peers } from "./contenders.js";
import { freshKeys } from "./keys.js";
import { measureInChild } from "./measure-in-child.js";
import { figure, goal, goalTable, median, spread, table } from "./report.js";
import { repeats, scaled } from "./settings.js";

export const title = "Memory, and a spray of new keys";

const KEYS = scaled(1e6);
const SPRAYED = scaled(5e6);
const CHUNK = 1000;
const FLAGS = ["--expose-gc", "--max-old-space-size=4096"];
/** One call takes 10 s to be forgiven, so that no key of the spray is idle while it lasts. */
const SLOW = { limit: 100, perSecond: 0.1 };

const perKey = ["sluice", "naive", ...peers];
const sprays = [
  { name: "sluice", maxKeys: 100_000, note: "maxKeys 100 000", goalMs: 20 },
  { name: "sluice", maxKeys: 1_000_000, note: "maxKeys 1 000 000", goalMs: 50 },
  { name: "naive", note: "unbounded" },
  { name: "hono", note: "two windows" },
  { name: "express", note: "two windows" },
  { name: "fastify", maxKeys: 5000, note: "its default, the 5000 last used" },
];

export async function run(progress) {
  const bytes = {};
  for (const name of perKey) {
    progress(`bytes per key, ${name}`);
    const maxKeys = name === "sluice" ? 2 ** 20 : undefined;
    bytes[name] = await measureInChild("memory-footprint", { name, maxKeys }, FLAGS);
  }
  const runs = sprays.map(() => []);
  // A spray takes seconds, so that a few are enough.
  const rounds = Math.min(repeats, 3);
  for (let repeat = 1; repeat <= rounds; repeat++) {
    for (const [i, { name, maxKeys, note }] of sprays.entries()) {
      progress(`spray, repeat ${repeat} of ${rounds}, ${name}, ${note}`);
      runs[i].push(await measureInChild("memory-footprint", { name, maxKeys, spray: true }, FLAGS));
    }
  }
  const column = (i, field) => runs[i].map((run) => run[field]);
  const sprayRows = sprays.map(({ name, note }, i) => [
    `${contenders[name].label}, ${note}`,
    ...["liveMb", "peakMb", "speed", "stallMs"].map((field) => spread(column(i, field))),
    ...["size", "evictions"].map((field) => (field in runs[i][0] ? figure(median(column(i, field))) : "-")),
  ]);
  const perKeyRows = perKey.map((name) => [contenders[name].label, figure(bytes[name])]);
  const sprayHead = ["live MB", "peak MB", "M calls/s", "longest stall ms", "size", "evictions"];
  return [
    table([`${KEYS} keys`, "bytes per key"], perKeyRows),
    table([`spray of ${SPRAYED} new keys`, ...sprayHead], sprayRows),
    goalTable([
      goal(`bytes per key at ${KEYS} keys`, [bytes.sluice], "<=", 96, " B"),
      ...sprays.flatMap(({ note, goalMs }, i) => {
        return goalMs ? [goal(`longest stall in a spray, ${note}`, column(i, "stallMs"), "<=", goalMs, " ms")] : [];
      }),
    ]),
  ];
}

export async function measure({ name, maxKeys, spray }) {
  const limits = { ...(spray ? SLOW : AMPLE), maxKeys };
  const contender = await contenders[name].make(limits);
  const keyAt = freshKeys(spray ? SPRAYED : KEYS);
  // Held to the end: what is no longer needed could be collected before it is weighed.
  globalThis.held = { contender, keyAt };
  return spray ? sprayKeys(contender, keyAt) : bytesPerKey(contender, keyAt);
}

async function bytesPerKey({ hit }, keyAt) {
  await warmUp(hit);
  const before = await liveBytes();
  for (let i = 0; i < KEYS; i++) globalThis.answer = await hit(keyAt(i));
  return ((await liveBytes()) - before) / KEYS;
}

async function sprayKeys({ hit, store }, keyAt) {
  await warmUp(hit);
  const before = await liveBytes();
  const start = performance.now();
  let stallMs = 0;
  let peak = 0;
  for (let from = 0; from < SPRAYED; from += CHUNK) {
    const begun = performance.now();
    await sprayChunk(hit, keyAt, from);
    const done = performance.now();
    await nextTurn();
    // The collector may work between turns as well.
    stallMs = Math.max(stallMs, done - begun, performance.now() - done);
    peak = Math.max(peak, usedBytes());
  }
  const speed = SPRAYED / (performance.now() - start) / 1000;
  const { size, evictions } = store ?? {};
  const liveMb = ((await liveBytes()) - before) / 1e6;
  return { liveMb, peakMb: (peak - before) / 1e6, speed, stallMs, size, evictions };
}

async function sprayChunk(hit, keyAt, from) {
  for (let i = from; i < from + CHUNK; i++) {
    const answer = hit(keyAt(i));
    globalThis.answer = answer instanceof Promise ? await answer : answer;
  }
}

/** A few calls on one key: code and its compilation are not what a key costs. */
async function warmUp(hit) {
  for (let i = 0; i < 50; i++) await hit("warm-up");
}

/** What is still there after collection. */
async function liveBytes() {
  for (let i = 0; i < 3; i++) {
    globalThis.gc();
    await nextTurn();
  }
  return usedBytes();
}

/** On the heap and beside it; the second holds array buffers. */
function usedBytes() {
  const { used_heap_size, external_memory } = getHeapStatistics();
  return used_heap_size + external_memory;
}
