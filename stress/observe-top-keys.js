/**
 * The most denied keys of 50 seeded streams against exact counts: runs `src/observe/top-keys-streams.test.ts` with a million
 * denials per stream. SLUICE_SCALE multiplies the number of denials, SLUICE_SEED repeats a failure.
 */
import { fileURLToPath } from "node:url";
import { runChild } from "../scripts/run-child.js";
import { seedOf } from "./random.js";
import { stepsOf, withSteps } from "./steps.js";

const root = fileURLToPath(new URL("..", import.meta.url));

export async function* observeTopKeys() {
  const denials = Math.max(10_000, stepsOf(1_000_000));
  const seed = seedOf("SLUICE_SEED");
  const start = performance.now();
  const { status, stdout, stderr } = await runChild(
    process.execPath,
    ["node_modules/vitest/vitest.mjs", "run", "src/observe/top-keys-streams.test.ts", "--testTimeout=600000"],
    { cwd: root, env: { ...withSteps(denials, 20_000), SLUICE_SEED: String(seed) } },
  );
  const tests = /^ *Tests +(.*)$/m.exec(stdout)?.[1] ?? "no tests";
  const seconds = ((performance.now() - start) / 1000).toFixed(0);
  yield {
    claim: "top keys against exact counts",
    details: `50 streams of ${denials} denials; ${tests}; seed ${seed}; ${seconds} s`,
    failures: status === 0 ? [] : [stdout.slice(-3000), stderr.slice(-1000)],
  };
}
