/** The contract kit on a memory store, without a test runner: it runs wherever JavaScript does. */
import { memoryStore } from "sluice";
import { fakeClock, storeSuite } from "sluice/testing";

/** Runs every law and tells how many passed and what failed. */
export async function runKit() {
  const cases = [];
  const it = (name, body) => cases.push({ name, body });
  const create = () => {
    const clock = fakeClock();
    return { store: memoryStore({ clock, maxKeys: 200 }), advance: clock.advance, maxKeys: 200 };
  };
  storeSuite("memory", create, { describe: (_name, body) => body(), it, time: "fake" });
  const failures = [];
  for (const { name, body } of cases) await body().catch((error) => failures.push(`${name}: ${error.message}`));
  return { passed: cases.length - failures.length, failures };
}
