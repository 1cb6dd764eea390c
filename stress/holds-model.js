/**
 * Runs the random tests of `test/holds` in full: 200 000 steps per algorithm against the exact model, and the bound of
 * actual use on 20 000 traces.
 */
import { fileURLToPath } from "node:url";
import { runChild } from "../scripts/run-child.js";
import { stepsOf, withSteps } from "./steps.js";

/** Steps per algorithm; a tenth in CI. */
const STEPS = stepsOf(200_000);

export async function* holdsModel() {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const start = performance.now();
  const { status, stdout, stderr } = await runChild(
    process.execPath,
    ["node_modules/vitest/vitest.mjs", "run", "test/holds/walk.test.ts"],
    // The tests of `npm test` run a thirtieth of the total on each algorithm.
    { cwd: root, env: withSteps(30 * STEPS, 1_000_000) },
  );
  const tests = /^ *Tests +(.*)$/m.exec(stdout)?.[1] ?? "no tests";
  const seed = /seed (\d+)/.exec(stdout)?.[1] ?? process.env.SLUICE_SEED ?? "in the output of a failure";
  const seconds = ((performance.now() - start) / 1000).toFixed(0);
  yield {
    claim: "holds against the model",
    details: `${STEPS} steps per algorithm, ${STEPS / 10} traces; ${tests}; seed ${seed}; ${seconds} s`,
    failures: status === 0 ? [] : [stdout.slice(-2000), stderr.slice(-1000)],
  };
}
