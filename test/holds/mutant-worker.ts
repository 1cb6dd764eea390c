/** Runs the tests of the holds on the source that it was built from, and posts the first that fails. */
import { parentPort } from "node:worker_threads";
import { decide, decideGroup } from "sluice/algorithms";
import { defaultMaxHolds } from "../../src/policy/max-holds.ts";
import { checkBound, checkEnds } from "./bound.ts";
import { HELD_ALGORITHMS } from "./held-samples.ts";
import { walkHeld } from "./held-walk.ts";
import { walkPenalty } from "./penalty-walk.ts";

const SEED = 99;

const TESTS: Readonly<Record<string, () => unknown>> = {
  bound: () => checkBound(decide, 800, SEED),
  ends: () => checkEnds(decide, 400, SEED),
  walk() {
    for (let seed = SEED; seed < SEED + 8; seed++) {
      walkPenalty({ decide, decideGroup }, 1500, seed);
      for (const name of HELD_ALGORITHMS) walkHeld({ decide, maxHolds: defaultMaxHolds(1, false) }, name, 1500, seed);
    }
  },
};

for (const [name, run] of Object.entries(TESTS)) {
  try {
    run();
  } catch (error) {
    parentPort?.postMessage({ name, message: (error as Error).message });
    break;
  }
}
