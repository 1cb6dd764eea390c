/**
 * Runs the tests of the source: `npm test` the unit and system tests with a tenth of the random steps, `npm run test:ci` all
 * other projects, and the random tests at their full length. Further arguments are passed to Vitest.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { projects, testFiles } from "./test-projects.js";

const QUICK = ["unit", "system"];
const [mode, ...rest] = process.argv.slice(2);
const isCI = mode === "ci";

/** Runs Vitest, and returns its exit code. */
function run(/** @type {string[]} */ names, /** @type {number} */ scale, /** @type {string[]} */ args) {
  const vitest = fileURLToPath(new URL("../node_modules/vitest/vitest.mjs", import.meta.url));
  const options = names.map((name) => `--project=${name}`);
  const env = { ...process.env, SLUICE_SCALE: process.env.SLUICE_SCALE ?? String(scale) };
  return spawnSync(process.execPath, [vitest, "run", ...options, ...args], { stdio: "inherit", env }).status ?? 1;
}

/** The quick test files whose length depends on SLUICE_SCALE. */
function randomTests() {
  const isRandom = (/** @type {string} */ file) => /\bscaled?\(|settings\.ts"/.test(readFileSync(file, "utf8"));
  return QUICK.flatMap((name) => testFiles(name)).filter(isRandom);
}

if (isCI) {
  const others = Object.keys(projects).filter((name) => !QUICK.includes(name));
  process.exitCode = Math.max(run(others, 1, rest), run(QUICK, 1, [...randomTests(), ...rest]));
} else {
  process.exitCode = run(QUICK, 0.1, process.argv.slice(2));
}
