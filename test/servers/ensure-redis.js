/** Finds redis-server, or installs it. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { ensureProgram } from "./ensure-program.js";

const run = promisify(execFile);

const COMMANDS = ["redis-server", "redis-cli"];

/** @type {import("./ensure-program.js").Program} */
export const REDIS = {
  name: "redis-server",
  commands: COMMANDS,
  advice: "Install redis-server and redis-cli 7.0 or newer and add both to the PATH.",
  problem: findProblem,
};

/** @type {Promise<void> | undefined} */
let ensured;

/** Ensures that `redis-server` and `redis-cli` exist. Installs them with apt if possible. */
export function ensureRedis() {
  ensured ??= ensureProgram(REDIS);
  return ensured;
}

async function findProblem() {
  for (const command of COMMANDS) {
    const found = await run(command, ["--version"]).catch(() => undefined);
    if (!found) return `there is no ${command}`;
    const [, version = "0"] = /(\d+\.\d+\.\d+)/.exec(found.stdout) ?? [];
    if (Number.parseInt(version, 10) < 7) return `${command} is ${version}`;
  }
  return undefined;
}
