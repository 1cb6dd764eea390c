/** Gets nginx onto a machine that does not have it. */
import { execFile } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

const ADVICE = "Install nginx 1.20 or newer, so that it is on the PATH";

/** Packages put nginx where only root's PATH leads. */
export const NGINX_PATH = `${process.env.PATH}:/usr/local/sbin:/usr/sbin`;

// RUNLEVEL=1 keeps the package from starting its own server; systemd does not ask for it and is told afterwards.
const INSTALL = `
if command -v nginx; then exit 0; fi
set -e
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
as_root apt-get update
as_root env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends nginx
if [ -d /run/systemd/system ]; then as_root systemctl disable --now nginx; fi`;

/** @type {Promise<void> | undefined} */
let ensured;

/** Makes sure that `nginx` exists; installs it with apt where that is possible. */
export function ensureNginx() {
  ensured ??= ensure();
  return ensured;
}

async function ensure() {
  if (await isMissing()) await install();
  if (await isMissing()) throw new Error(`${ADVICE}: there is no nginx.`);
}

function isMissing() {
  return run("nginx", ["-v"], { env: { ...process.env, PATH: NGINX_PATH } }).then(
    () => false,
    () => true,
  );
}

/** The lock goes with the process that holds it, so a killed installation blocks nobody. */
async function install() {
  const lock = join(tmpdir(), `sluice-install-nginx-${process.getuid?.() ?? 0}.lock`);
  try {
    await run("flock", ["-w", "300", lock, "sh", "-c", INSTALL], {
      env: { ...process.env, PATH: NGINX_PATH },
      timeout: 600_000,
      maxBuffer: 2 ** 24,
    });
  } catch (error) {
    const { stderr, message } = /** @type {{ stderr?: string; message: string }} */ (error);
    const last = (stderr?.trim() || message).split("\n").slice(-3).join("; ");
    throw new Error(`${ADVICE}; installing it with apt-get failed: ${last}`, { cause: error });
  }
}
