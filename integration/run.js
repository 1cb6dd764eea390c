/**
 * Runs the integration tests with real servers, clients and runtimes. Each folder has its own packages and types.
 * `node integration/run.js express redis/cluster` runs some of them. Installs the packages of a folder before its tests.
 */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { installAll, runtimesFolder, workerdFolder } from "../runtime-tests/install.js";
import { startHeartbeat } from "../scripts/heartbeat.js";
import { runChild } from "../scripts/run-child.js";
import { ensureChromium } from "../test/servers/ensure-chromium.js";
import { ensureNginx } from "../test/servers/ensure-nginx.js";
import { ensurePrometheus } from "../test/servers/ensure-prometheus.js";
import { ensureRedis } from "../test/servers/ensure-redis.js";

const here = dirname(fileURLToPath(import.meta.url));
const ofRoot = (path) => join(here, "../node_modules", path);

/** Folders whose apps run on Node 24, Deno or an edge runtime, which are installed with all other runtimes. */
const OTHER_RUNTIMES = [
  "h3",
  "koa",
  "netlify",
  "next",
  "react-router",
  "react-router-7",
  "sveltekit",
  "sveltekit-2",
  "workers-vitest",
];

/** Where the packages of a folder are. */
const packagesOf = (folder) => {
  if (folder === "edge") return [runtimesFolder, workerdFolder];
  // Builds the site.
  if (folder === "browser") return [join(here, folder), join(here, "../docs")];
  return OTHER_RUNTIMES.includes(folder) ? [join(here, folder), runtimesFolder] : [join(here, folder)];
};

const suites = readdirSync(here, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .flatMap(({ name: folder }) => {
    const files = readdirSync(join(here, folder)).filter((file) => file.endsWith(".test.ts"));
    return files.length === 0
      ? []
      : ["types", ...files.map((file) => basename(file, ".test.ts"))].map((suite) => ({ folder, suite }));
  });
const nameOf = ({ folder, suite }) => `${folder}/${suite}`;

function run(script, ...args) {
  return runChild(process.execPath, [script, ...args], { cwd: here });
}

/** One line of the report, and the cells below it. */
async function underVitest({ folder, suite }) {
  const dir = mkdtempSync(join(tmpdir(), "sluice-integration-"));
  const reportFile = join(dir, "report.json");
  const root = join(here, folder);
  const where = ["--root", root, "--config", join(here, "vitest.config.ts")];
  const report = ["--reporter=json", `--outputFile=${reportFile}`];
  const args = ["run", join(root, `${suite}.test.ts`), ...where, ...report];
  const { status, stdout, stderr } = await run(ofRoot("vitest/vitest.mjs"), ...args);
  if (!existsSync(reportFile)) return { failures: [`exit ${status}: ${(stderr || stdout).slice(-2000)}`] };
  const { testResults } = JSON.parse(readFileSync(reportFile, "utf8"));
  rmSync(dir, { recursive: true });
  const tests = testResults.flatMap((file) => file.assertionResults);
  const failed = tests.filter((test) => test.status !== "passed");
  const failures = failed.map(({ ancestorTitles, title, failureMessages, status }) => {
    const names = [...ancestorTitles, title].map((name) => cellOf(name).name);
    return `${names.join(" > ")}: ${failureMessages[0] ?? status}`;
  });
  // A file can also fail outside its tests.
  if (failures.length === 0 && status !== 0) {
    failures.push(`exit ${status}: ${testResults.map((file) => file.message).join("\n")}${stderr.slice(-2000)}`);
  }
  const cells = new Map();
  for (const { ancestorTitles, status, duration, meta } of tests) {
    const [title = suite] = ancestorTitles;
    const cell = cells.get(title) ?? { ...cellOf(title), passed: 0, failed: 0, ms: 0, figures: [] };
    if (meta?.figures) cell.figures.push(meta.figures);
    cell[status === "passed" ? "passed" : "failed"]++;
    cell.ms += duration ?? 0;
    cells.set(title, cell);
  }
  return { passed: tests.length - failed.length, failures, cells: [...cells.values()] };
}

/** The title of a suite lists the tests that it leaves out, which is too long for one line. */
function cellOf(title) {
  const [name, ...left] = title.split("; left out: ");
  return { name, left };
}

/** A folder has several configurations where one package has several versions. */
async function underTsc({ folder }) {
  const configs = readdirSync(join(here, folder)).filter((file) => /^tsconfig.*\.json$/.test(file));
  const check = (config) => run(ofRoot("typescript/bin/tsc"), "-p", join(here, folder, config));
  const results = await Promise.all(configs.map(check));
  const failures = results.flatMap(({ status, stdout, stderr }) => (status === 0 ? [] : [stdout + stderr]));
  return { passed: configs.length - failures.length, failures };
}

const summary = (passed, failed, ms) => `${passed} passed, ${failed} failed (${(ms / 1000).toFixed(1)} s)`;

const wanted = process.argv.slice(2);
const isWanted = (name) => (suite) => name === nameOf(suite) || name === suite.folder;
const unknown = wanted.filter((name) => !suites.some(isWanted(name)));
if (unknown.length > 0) throw new Error(`no suite ${unknown}; there are ${suites.map(nameOf).join(", ")}`);
const chosen = wanted.length > 0 ? suites.filter((suite) => wanted.some((name) => isWanted(name)(suite))) : suites;
const folders = new Set(chosen.flatMap(({ folder }) => packagesOf(folder)));
const stopHeartbeat = startHeartbeat(() => "installing packages");
await installAll([...folders].filter((packages) => existsSync(join(packages, "package.json"))));
stopHeartbeat();
// Here, and not in the tests: an installation is announced, and a missing server is one error instead of many.
if (chosen.some(({ suite }) => suite !== "types")) await ensureRedis();
if (chosen.some(({ folder, suite }) => folder === "browser" && suite !== "types")) await ensureChromium();
if (chosen.some(({ folder, suite }) => folder === "nginx" && suite !== "types")) await ensureNginx();
if (chosen.some(({ folder, suite }) => folder === "observe" && suite !== "types")) await ensurePrometheus();
const total = { passed: 0, failed: 0 };
for (const one of chosen) {
  const start = Date.now();
  const stopHeartbeat = startHeartbeat(() => `integration/${nameOf(one)}`);
  const { passed = 0, failures, cells = [] } = await (one.suite === "types" ? underTsc(one) : underVitest(one));
  stopHeartbeat();
  total.passed += passed;
  total.failed += failures.length;
  console.log(`${nameOf(one).padEnd(24)} ${summary(passed, failures.length, Date.now() - start)}`);
  for (const { name, left, passed, failed, ms, figures } of cells) {
    console.log(
      `  ${name.padEnd(52)} ${summary(passed, failed, ms)}${left.length > 0 ? `, ${left.length} left out` : ""}`,
    );
    for (const line of figures) console.log(`    ${line}`);
  }
  for (const reason of new Set(cells.flatMap(({ left }) => left))) console.log(`  left out: ${reason}`);
  for (const failure of failures.slice(0, 20)) console.log(`  ${failure.slice(0, 500)}`);
}
console.log(`${total.passed} passed, ${total.failed} failed`);
process.exitCode = total.failed > 0 || total.passed === 0 ? 1 : 0;
