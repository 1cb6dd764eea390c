/** Measures whether a denied client can evict its own bucket by sending new keys. */
import { contenders } from "./contenders.js";
import { freshKeys } from "./keys.js";
import { measureInChild } from "./measure-in-child.js";
import { goal, goalTable, table } from "./report.js";
import { scaled } from "./settings.js";

export const title = "Bypass by a flood of new keys";

const DENIED = 50;
/** Slow enough that no denied key refills during the measurement. */
const LIMITS = { limit: 10, perSecond: 1 / 3600 };
/** New keys per key that the contender keeps. */
const NEW_KEYS_FACTOR = 15;

const cases = [
  { name: "sluice", maxKeys: scaled(100_000), note: "maxKeys" },
  { name: "fastify", maxKeys: 5000, note: "its default" },
  { name: "naive", note: "unbounded", newKeys: NEW_KEYS_FACTOR * scaled(100_000) },
];

export async function run(progress) {
  const rows = [];
  const stillDenied = {};
  for (const { name, maxKeys, note, newKeys = NEW_KEYS_FACTOR * maxKeys } of cases) {
    progress(name);
    stillDenied[name] = await measureInChild("memory-bypass", { name, maxKeys, newKeys });
    const bound = maxKeys ? `${maxKeys} (${note})` : note;
    rows.push([contenders[name].label, bound, newKeys, `${stillDenied[name]} of ${DENIED}`]);
  }
  return [
    table(["contender", "keys kept", "new keys", "still denied"], rows),
    goalTable([goal(`denied keys that stay denied, of ${DENIED}`, [stillDenied.sluice], ">=", DENIED)]),
  ];
}

export async function measure({ name, maxKeys, newKeys }) {
  const { hit, denied } = await contenders[name].make({ ...LIMITS, maxKeys });
  const keyAt = freshKeys(DENIED + newKeys);
  const countDenied = () => {
    let count = 0;
    for (let i = 0; i < DENIED; i++) if (denied(hit(keyAt(i)))) count++;
    return count;
  };
  for (let i = 0; i < LIMITS.limit * DENIED; i++) hit(keyAt(i % DENIED));
  if (countDenied() !== DENIED) throw new Error(`${name} allowed a key over its limit`);
  for (let i = 0; i < newKeys; i++) globalThis.result = hit(keyAt(DENIED + i));
  return countDenied();
}
