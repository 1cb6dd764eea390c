/** Runs the contract suites on memory stores, and cases of observers, without a test runner, for runtimes that have none. */
import { memoryStore } from "sluice";
import { memoryIdempotencyStore } from "sluice/idempotency";
import { fakeClock, idempotencySuite, storeSuite } from "sluice/testing";
import { observeCases } from "./observe-cases.js";

/** Runs every case. Returns the number of passed cases and the failures. */
export async function runContractSuite() {
  const cases = [];
  const it = (name, body) => cases.push({ name, body });
  const create = () => {
    const clock = fakeClock();
    return { store: memoryStore({ clock, maxKeys: 200 }), advance: clock.advance, maxKeys: 200 };
  };
  const runner = { describe: (_name, body) => body(), it, time: "fake" };
  storeSuite("memory", create, runner);
  const createIdempotency = () => {
    const clock = fakeClock();
    return { store: memoryIdempotencyStore({ clock }), advance: clock.advance };
  };
  idempotencySuite("memory", createIdempotency, runner);
  observeCases(it);
  const failures = [];
  for (const { name, body } of cases) await body().catch((error) => failures.push(`${name}: ${error.message}`));
  return { passed: cases.length - failures.length, failures };
}
