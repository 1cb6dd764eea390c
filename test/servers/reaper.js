/** Makes sure that no server and no file of one outlives the process that started it, however that process ends. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// An 'exit' handler does not run when a signal ends the process, and that is how vitest ends its workers. So a shell
// keeps the list too, and reads the end of its input when this process is gone.
const WATCH = `
pids=' '
while read -r sign pid; do
  if [ "$sign" = + ]; then pids="$pids$pid "; else pids="\${pids%% $pid *} \${pids#* $pid }"; fi
done
[ "$pids" = ' ' ] || kill -9 $pids
rm -rf -- "$1"`;

/** @type {Set<number>} */
const pids = new Set();
/** @type {{ dir: string; list: import("node:stream").Writable } | undefined} */
let watch;

/** A new directory that goes with this process. */
export function temporaryDir() {
  return mkdtempSync(join(watching().dir, "server-"));
}

/** Kills this process of ours when we end. */
export function reap(/** @type {number} */ pid) {
  pids.add(pid);
  watching().list.write(`+ ${pid}\n`);
}

/** It has ended: its number may be given to somebody else's process from now on. */
export function reaped(/** @type {number} */ pid) {
  if (pids.delete(pid)) watching().list.write(`- ${pid}\n`);
}

function watching() {
  watch ??= startWatch();
  return watch;
}

function startWatch() {
  const dir = mkdtempSync(join(tmpdir(), "sluice-servers-"));
  // Detached, so that Ctrl-C in the terminal does not end it together with us.
  const shell = spawn("sh", ["-c", WATCH, "watch", dir], { stdio: ["pipe", "ignore", "ignore"], detached: true });
  shell.on("error", () => {});
  shell.stdin.on("error", () => {});
  shell.unref();
  // A socket by nature, though not by type; Bun has no `unref` on it.
  const { stdin } = /** @type {{ stdin: { unref?(): void } }} */ (/** @type {unknown} */ (shell));
  stdin.unref?.();

  process.once("exit", () => {
    for (const pid of pids) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It was faster.
      }
    }
    try {
      rmSync(dir, { recursive: true, force: true });
    } catch {
      // The shell tries again.
    }
  });
  return { dir, list: shell.stdin };
}
