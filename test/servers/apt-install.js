/** Installs a Debian package for the tests without starting its service. */
import { execFile } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/**
 * Installs the package that provides `commands`, as root or with sudo. `advice` is the start of the error message.
 * @param {{ name: string; commands: string[]; advice: string; path?: string | undefined }} options
 */
export async function aptInstall({ name, commands, advice, path = process.env.PATH }) {
  // RUNLEVEL=1 prevents the package from starting its server. systemd ignores it, so the service is disabled afterwards.
  const script = `
if ${commands.map((command) => `command -v ${command}`).join(" && ")}; then exit 0; fi
set -e
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
as_root apt-get update
as_root env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ${name}
if [ -d /run/systemd/system ]; then as_root systemctl disable --now ${name}; fi`;
  // flock releases the lock when its process ends, even if it is killed.
  const lock = join(tmpdir(), `sluice-install-${name}-${process.getuid?.() ?? 0}.lock`);
  const options = { env: { ...process.env, PATH: path }, timeout: 600_000, maxBuffer: 2 ** 24 };
  try {
    await run("flock", ["-w", "300", lock, "sh", "-c", script], options);
  } catch (error) {
    const { stderr, message } = /** @type {{ stderr?: string; message: string }} */ (error);
    const last = (stderr?.trim() || message).split("\n").slice(-3).join("; ");
    throw new Error(`${advice} Installing it with apt-get failed: ${last}`, { cause: error });
  }
}
