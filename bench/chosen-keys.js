/** Measures whether keys chosen to collide in a hash table cost more than random keys. */
import { AMPLE, contenders } from "./contenders.js";
import { flat, freshKeys, seededRandom } from "./keys.js";
import { measureInChild } from "./measure-in-child.js";
import { goal, goalTable, ratios, spread, table } from "./report.js";
import { repeats, scaled } from "./settings.js";

export const title = "Colliding keys";

const COUNT = scaled(200_000);
/** Stop a flood after this time: a contender with collisions would take minutes. */
const MAX_FLOOD_MS = 20_000;

/**
 * V8 hashes a string that looks like an array index by its number, and a table uses the low bits. Multiples of a power of
 * two share those bits. An array index is below 2^32: only with the second step are all keys below it.
 */
const steps = [2 ** 16, 2 ** 14];
const cases = [
  { name: "sluice", maxKeys: 2 ** 20, note: "maxKeys 1 048 576" },
  { name: "sluice", maxKeys: 100_000, note: "maxKeys 100 000" },
  { name: "naive", note: "unbounded" },
];

export async function run(progress) {
  const results = cases.flatMap((one) => steps.map((step) => ({ ...one, step, chosen: [], random: [] })));
  for (let repeat = 1; repeat <= repeats; repeat++) {
    progress(`repeat ${repeat} of ${repeats}`);
    for (const { name, maxKeys, step, chosen, random } of results) {
      chosen.push(await measureInChild("chosen-keys", { name, maxKeys, step, choose: true }));
      random.push(await measureInChild("chosen-keys", { name, maxKeys, step, choose: false }));
    }
  }
  const rows = results.map(({ name, note, step, chosen, random }) => {
    const ratio = spread(ratios(chosen, random), "x");
    return [`${contenders[name].label}, ${note}`, step, spread(chosen), spread(random), ratio];
  });
  return [
    table([`${COUNT} new keys`, "multiples of", "chosen, ns per key", "random, ns per key", "ratio"], rows),
    goalTable(
      results
        .filter(({ name }) => name === "sluice")
        .map(({ note, step, chosen, random }) => {
          return goal(`chosen / random, ${note}, multiples of ${step}`, ratios(chosen, random), "<=", 3, "x");
        }),
    ),
  ];
}

/** Nanoseconds per new key. */
export async function measure({ name, maxKeys, step, choose }) {
  const { make } = contenders[name];
  const random = seededRandom(1);
  const letter = () => String.fromCharCode(97 + Math.floor(random() * 26));
  const keys = Array.from({ length: COUNT }, (_, i) => {
    const chosen = String(i * step);
    return flat(choose ? chosen : Array.from(chosen, letter).join(""));
  });
  // Warm up the code with a separate limiter.
  const otherAt = freshKeys(20_000);
  const others = Array.from({ length: 20_000 }, (_, i) => otherAt(i));
  insert((await make({ ...AMPLE, maxKeys })).hit, others);
  return insert((await make({ ...AMPLE, maxKeys })).hit, keys);
}

function insert(hit, keys) {
  const start = performance.now();
  let done = 0;
  while (done < keys.length && performance.now() - start < MAX_FLOOD_MS) {
    for (const end = Math.min(keys.length, done + 1000); done < end; done++) globalThis.result = hit(keys[done]);
  }
  return ((performance.now() - start) / done) * 1e6;
}
