/**
 * Runs the tests of `test/rules` in full: a million lookups against a slow matcher, and 20 000 unusual spellings of paths
 * on each supported server.
 */
import { fileURLToPath } from "node:url";
import { install } from "../runtime-tests/install.js";
import { runChild } from "../scripts/run-child.js";
import { stepsOf, withSteps } from "./steps.js";

const root = fileURLToPath(new URL("..", import.meta.url));

export async function* rulesMatching() {
  const lookups = stepsOf(1_000_000);
  yield await runTest(
    "rules against a slow matcher",
    "matching",
    withSteps(lookups, 20_000),
    () => `${lookups} lookups`,
  );
}

export async function* rulesSpellings() {
  const targets = stepsOf(20_000);
  // Express 4 is installed there.
  install(fileURLToPath(new URL("../integration/express", import.meta.url)));
  yield await runTest("spellings of paths on real servers", "spellings", withSteps(targets, 300), (stdout) => {
    const responses = [...stdout.matchAll(/^(\d+) responses of \d+$/gm)].map(([, count]) => Number(count));
    const total = responses.reduce((sum, count) => sum + count, 0);
    return `${targets} targets on ${responses.length} servers, ${total} responses`;
  });
}

async function runTest(
  /** @type {string} */ claim,
  /** @type {string} */ name,
  /** @type {NodeJS.ProcessEnv} */ env,
  /** @type {(stdout: string) => string} */ describe,
) {
  const start = performance.now();
  const { status, stdout, stderr } = await runChild(
    process.execPath,
    ["node_modules/vitest/vitest.mjs", "run", `test/rules/${name}.test.ts`, "--testTimeout=1200000"],
    { cwd: root, env },
  );
  const tests = /^ *Tests +(.*)$/m.exec(stdout)?.[1] ?? "no tests";
  const seed = process.env.SLUICE_SEED ?? /seed (\d+)/.exec(stdout)?.[1] ?? "in the output of a failure";
  const seconds = ((performance.now() - start) / 1000).toFixed(0);
  return {
    claim,
    details: `${describe(stdout)}; ${tests}; seed ${seed}; ${seconds} s`,
    failures: status === 0 ? [] : [stdout.slice(-3000), stderr.slice(-1000)],
  };
}
