/**
 * The contract kit on every client of Redis, on a single server, on Cluster and on Sentinel, and on Upstash; and the
 * types of all those clients. `node integration/redis/run.js cluster types` runs some of it. Installs its own clients.
 */
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const ofRoot = (path) => join(here, "../../node_modules", path);
const suites = readdirSync(here).flatMap((file) => (file.endsWith(".test.ts") ? [basename(file, ".test.ts")] : []));

function run(script, ...args) {
  return spawnSync(process.execPath, [script, ...args], { cwd: here, encoding: "utf8", maxBuffer: 2 ** 28 });
}

/** One line of the report, and the cells below it. */
function underVitest(suite) {
  const dir = mkdtempSync(join(tmpdir(), "sluice-integration-"));
  const reportFile = join(dir, "report.json");
  const args = ["run", `${suite}.test.ts`, "--reporter=json", `--outputFile=${reportFile}`];
  const { status, stdout, stderr } = run(ofRoot("vitest/vitest.mjs"), ...args);
  if (!existsSync(reportFile)) return { cells: [], failures: [`exit ${status}: ${(stderr || stdout).slice(-2000)}`] };
  const { testResults } = JSON.parse(readFileSync(reportFile, "utf8"));
  rmSync(dir, { recursive: true });
  const tests = testResults.flatMap((file) => file.assertionResults);
  const failed = tests.filter((test) => test.status !== "passed");
  const failures = failed.map((test) => `${test.fullName}: ${test.failureMessages[0] ?? test.status}`);
  // A file that fails before, after or beside its tests has failed all the same.
  if (failures.length === 0 && status !== 0) {
    failures.push(`exit ${status}: ${testResults.map((file) => file.message).join("\n")}${stderr.slice(-2000)}`);
  }
  const cells = new Map();
  for (const { ancestorTitles, status, duration } of tests) {
    const [title] = ancestorTitles;
    const cell = cells.get(title) ?? { title, passed: 0, failed: 0, ms: 0 };
    cell[status === "passed" ? "passed" : "failed"]++;
    cell.ms += duration ?? 0;
    cells.set(title, cell);
  }
  return { passed: tests.length - failed.length, failures, cells: [...cells.values()] };
}

function underTsc() {
  const { status, stdout, stderr } = run(ofRoot("typescript/bin/tsc"), "-p", ".");
  return status === 0 ? { passed: 1, failures: [] } : { failures: [stdout + stderr] };
}

const told = (passed, failed, ms) => `${passed} passed, ${failed} failed (${(ms / 1000).toFixed(1)} s)`;

if (!existsSync(join(here, "node_modules/ioredis6"))) {
  execFileSync("npm", ["ci", "--ignore-scripts"], { cwd: here, stdio: ["ignore", "ignore", "inherit"] });
}
const all = ["types", ...suites];
const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !all.includes(name));
if (unknown.length > 0) throw new Error(`no suite ${unknown}; there are ${all.join(", ")}`);
const total = { passed: 0, failed: 0 };
for (const name of wanted.length > 0 ? wanted : all) {
  const start = Date.now();
  const { passed = 0, failures, cells = [] } = name === "types" ? underTsc() : underVitest(name);
  total.passed += passed;
  total.failed += failures.length;
  console.log(`${name.padEnd(14)} ${told(passed, failures.length, Date.now() - start)}`);
  for (const cell of cells) console.log(`  ${cell.title.padEnd(48)} ${told(cell.passed, cell.failed, cell.ms)}`);
  for (const failure of failures.slice(0, 20)) console.log(`  ${failure.slice(0, 500)}`);
}
console.log(`${total.passed} passed, ${total.failed} failed`);
process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0;
