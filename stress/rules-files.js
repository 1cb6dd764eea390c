/**
 * Runs the random tests of `test/rules` with 200 000 rule files: each ends in issues whose places exist in the file, or
 * in rules whose `find` and `explain` agree, and the published JSON Schema agrees.
 */
import { fileURLToPath } from "node:url";
import { runChild } from "../scripts/run-child.js";
import { stepsOf, withSteps } from "./steps.js";

const FILES = stepsOf(200_000);
const SEED = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));

export async function* rulesFiles() {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const start = performance.now();
  const { status, stdout, stderr } = await runChild(
    process.execPath,
    ["node_modules/vitest/vitest.mjs", "run", "test/rules/random-files.test.ts"],
    {
      cwd: root,
      env: { ...withSteps(FILES, 3000), SLUICE_SEED: String(SEED) },
    },
  );
  const counts = /^\d+ files, .*$/m.exec(stdout)?.[0] ?? `seed ${SEED}`;
  const seconds = ((performance.now() - start) / 1000).toFixed(0);
  yield {
    claim: "random rule files",
    details: `${counts}; ${seconds} s`,
    failures: status === 0 ? [] : [stdout.slice(-2000), stderr.slice(-1000)],
  };
}
