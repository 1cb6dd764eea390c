/** Installs redis-server if it is missing. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { aptInstall } from "./apt-install.js";

const run = promisify(execFile);

const ADVICE = "Install redis-server and redis-cli 7.0 or newer and add both to the PATH.";
const PROGRAMS = ["redis-server", "redis-cli"];

/** @type {Promise<void> | undefined} */
let ensured;

/** Ensures that `redis-server` and `redis-cli` exist. Installs them with apt if possible. */
export function ensureRedis() {
  ensured ??= ensure();
  return ensured;
}

async function ensure() {
  if ((await missing()) !== undefined) await aptInstall({ name: "redis-server", commands: PROGRAMS, advice: ADVICE });
  const reason = await missing();
  if (reason !== undefined) throw new Error(`${ADVICE} Reason: ${reason}.`);
}

/** The reason why the tests can't run, or undefined. */
async function missing() {
  for (const program of PROGRAMS) {
    const found = await run(program, ["--version"]).catch(() => undefined);
    if (!found) return `there is no ${program}`;
    const [, version = "0"] = /(\d+\.\d+\.\d+)/.exec(found.stdout) ?? [];
    if (Number.parseInt(version, 10) < 7) return `${program} is ${version}`;
  }
  return undefined;
}
