/** Tests the list of tests that were not run. */
import { expect, it } from "vitest";
import { startHeartbeat } from "../scripts/heartbeat.js";
import { describeSkipped } from "./progress-reporter.ts";

const missing = { need: "redis-server", reason: "Install redis-server." };

it("lists the files, the number of tests and the command", () => {
  const text = describeSkipped([
    { file: "test/a.test.ts", tests: [{ missing }, { missing }, {}] },
    { file: "test/b.test.ts", tests: [{}] },
    { file: "test/c.test.ts", tests: [{ missing }] },
  ]);
  expect(text.trim().split("\n")).toEqual([
    "NOT RUN without redis-server: 3 tests in 2 files.",
    "  test/a.test.ts: 2 of 3 tests",
    "  test/c.test.ts: 1 test",
    "Install redis-server.",
    "Then run them with:",
    "  npx vitest run test/a.test.ts test/c.test.ts",
  ]);
});

it("lists each missing program separately", () => {
  const text = describeSkipped([
    { file: "test/a.test.ts", tests: [{ missing }, { missing: { need: "workerd", reason: "Use another machine." } }] },
  ]);
  expect(text.match(/^NOT RUN .*$/gm)).toEqual([
    "NOT RUN without redis-server: 1 test in 1 file.",
    "NOT RUN without workerd: 1 test in 1 file.",
  ]);
});

it("prints nothing if every test ran", () => {
  expect(describeSkipped([{ file: "test/a.test.ts", tests: [{}] }])).toBe("");
});

it("prints what is still running until it is stopped", async () => {
  let stop = () => {};
  const line = await new Promise((resolve) => {
    stop = startHeartbeat(() => "test/a.test.ts", resolve, 1);
  });
  stop();
  expect(line).toBe("… still running: test/a.test.ts, 0 s");
});
