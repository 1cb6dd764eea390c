/** Runs the fuzz tests of `test/identity` with a million hostile addresses, each checked against a slow reference parser. */
import { fileURLToPath } from "node:url";
import { runChild } from "../scripts/run-child.js";
import { scaled } from "../scripts/scale.js";
import { withSteps } from "./steps.js";

const count = scaled(1_000_000);

export async function* addresses() {
  const root = fileURLToPath(new URL("..", import.meta.url));
  const start = performance.now();
  const { status, stdout, stderr } = await runChild(
    process.execPath,
    ["node_modules/vitest/vitest.mjs", "run", "test/identity"],
    { cwd: root, env: withSteps(count, 100_000) },
  );
  const tests = /^ *Tests +(.*)$/m.exec(stdout)?.[1] ?? "no tests";
  const seconds = ((performance.now() - start) / 1000).toFixed(0);
  yield {
    claim: "hostile addresses",
    details: `${count} requests resolved like the reference parser, ${count / 4} spoofing attempts; ${tests}; ${seconds} s`,
    failures: status === 0 ? [] : [stdout.slice(-2000), stderr.slice(-1000)],
  };
}
