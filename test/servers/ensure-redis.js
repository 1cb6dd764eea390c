/** Gets redis-server onto a machine that does not have it. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { aptInstall } from "./apt-install.js";

const run = promisify(execFile);

const ADVICE = "Install redis-server and redis-cli 7.0 or newer, so that both are on the PATH";
const PROGRAMS = ["redis-server", "redis-cli"];

/** @type {Promise<void> | undefined} */
let ensured;

/** Makes sure that `redis-server` and `redis-cli` exist; installs them with apt where that is possible. */
export function ensureRedis() {
  ensured ??= ensure();
  return ensured;
}

async function ensure() {
  if ((await missing()) !== undefined) await aptInstall({ name: "redis-server", commands: PROGRAMS, advice: ADVICE });
  const reason = await missing();
  if (reason !== undefined) throw new Error(`${ADVICE}: ${reason}.`);
}

/** What keeps the tests from running, if anything does. */
async function missing() {
  for (const program of PROGRAMS) {
    const found = await run(program, ["--version"]).catch(() => undefined);
    if (!found) return `there is no ${program}`;
    const [, version = "0"] = /(\d+\.\d+\.\d+)/.exec(found.stdout) ?? [];
    if (Number.parseInt(version, 10) < 7) return `${program} is ${version}`;
  }
  return undefined;
}
