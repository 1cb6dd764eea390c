/** Gets redis-server onto a machine that does not have it. */
import { execFile } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

const ADVICE = "Install redis-server and redis-cli 7.0 or newer, so that both are on the PATH";

// RUNLEVEL=1 keeps the package from starting its own server; systemd does not ask for it and is told afterwards.
const INSTALL = `
if command -v redis-server && command -v redis-cli; then exit 0; fi
set -e
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
as_root apt-get update
as_root env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends redis-server
if [ -d /run/systemd/system ]; then as_root systemctl disable --now redis-server; fi`;

/** @type {Promise<void> | undefined} */
let ensured;

/** Makes sure that `redis-server` and `redis-cli` exist; installs them with apt where that is possible. */
export function ensureRedis() {
  ensured ??= ensure();
  return ensured;
}

async function ensure() {
  if ((await missing()) !== undefined) await install();
  const reason = await missing();
  if (reason !== undefined) throw new Error(`${ADVICE}: ${reason}.`);
}

/** What keeps the tests from running, if anything does. */
async function missing() {
  for (const program of ["redis-server", "redis-cli"]) {
    const found = await run(program, ["--version"]).catch(() => undefined);
    if (!found) return `there is no ${program}`;
    const [, version = "0"] = /(\d+\.\d+\.\d+)/.exec(found.stdout) ?? [];
    if (Number.parseInt(version, 10) < 7) return `${program} is ${version}`;
  }
  return undefined;
}

/** The lock goes with the process that holds it, so a killed installation blocks nobody. */
async function install() {
  const lock = join(tmpdir(), `sluice-install-redis-${process.getuid?.() ?? 0}.lock`);
  try {
    await run("flock", ["-w", "300", lock, "sh", "-c", INSTALL], { timeout: 600_000, maxBuffer: 2 ** 24 });
  } catch (error) {
    const { stderr, message } = /** @type {{ stderr?: string; message: string }} */ (error);
    const last = (stderr?.trim() || message).split("\n").slice(-3).join("; ");
    throw new Error(`${ADVICE}; installing them with apt-get failed: ${last}`, { cause: error });
  }
}
