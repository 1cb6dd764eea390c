/** Whether a denied client gets a new budget by sending new keys until the store has forgotten it. */

import { contenders } from "./contenders.js";
import { freshKeys } from "./keys.js";
import { measureInChild } from "./measure-in-child.js";
import { goal, goalTable, table } from "./report.js";
import { scaled } from "./settings.js";

export const title = "Bypass by a spray of new keys";

const DENIED = 50;
/** One an hour: time does not help them. */
const LIMITS = { limit: 10, perSecond: 1 / 3600 };
const TIMES = 15;

const cases = [
  { name: "sluice", maxKeys: scaled(100_000), note: "maxKeys" },
  { name: "fastify", maxKeys: 5000, note: "its default" },
  { name: "naive", note: "unbounded", sprayed: TIMES * scaled(100_000) },
];

export async function run(progress) {
  const rows = [];
  const kept = {};
  for (const { name, maxKeys, note, sprayed = TIMES * maxKeys } of cases) {
    progress(name);
    kept[name] = await measureInChild("memory-bypass", { name, maxKeys, sprayed });
    const bound = maxKeys ? `${maxKeys} (${note})` : note;
    rows.push([contenders[name].label, bound, sprayed, `${kept[name]} of ${DENIED}`]);
  }
  return [
    table(["contender", "keys kept", "keys sprayed", "still denied"], rows),
    goalTable([goal(`denied keys that stay denied, of ${DENIED}`, [kept.sluice], ">=", DENIED)]),
  ];
}

export async function measure({ name, maxKeys, sprayed }) {
  const { hit, denied } = await contenders[name].make({ ...LIMITS, maxKeys });
  const keyAt = freshKeys(DENIED + sprayed);
  const countDenied = () => {
    let count = 0;
    for (let i = 0; i < DENIED; i++) if (denied(hit(keyAt(i)))) count++;
    return count;
  };
  for (let i = 0; i < LIMITS.limit * DENIED; i++) hit(keyAt(i % DENIED));
  if (countDenied() !== DENIED) throw new Error(`${name} does not deny what is spent`);
  for (let i = 0; i < sprayed; i++) globalThis.answer = hit(keyAt(DENIED + i));
  return countDenied();
}
