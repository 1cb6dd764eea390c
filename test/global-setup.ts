/** Finds out once per test run which programs are missing, and installs redis-server where that is possible. */
import type { TestProject } from "vitest/node";
import { workerdProblem } from "../runtime-tests/install.js";
import { isCI } from "./servers/decide-need.js";
import { decideProgram, ensureProgram } from "./servers/ensure-program.js";
import { REDIS } from "./servers/ensure-redis.js";
import type { Missing } from "./servers/needs.ts";

export default async function setup(project: TestProject): Promise<void> {
  const missing: Missing = {};
  const redis = await redisProblem();
  if (redis !== undefined) missing["redis-server"] = redis;
  const workerd = workerdProblem();
  if (workerd !== undefined) missing.workerd = workerd;
  project.provide("missing", missing);
}

/** The reason to skip the tests that need Redis, or undefined. Throws if they must not be skipped. */
async function redisProblem(): Promise<string | undefined> {
  const { action, problem, reason } = await decideProgram(REDIS);
  if (action === "run") return undefined;
  if (action === "skip") return `${REDIS.advice} Reason: ${problem}, and ${reason}.`;
  try {
    await ensureProgram(REDIS);
    return undefined;
  } catch (error) {
    if (action === "fail" || isCI(process.env)) throw error;
    return (error as Error).message;
  }
}
