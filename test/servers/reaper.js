/** Ends servers and deletes their files when this process ends, also if it is killed. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// An 'exit' handler does not run when a signal ends the process, and Vitest ends its workers by signal. So a shell keeps
// the list, too: its input ends when this process is gone.
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

/** Creates a directory that is deleted with this process. */
export function temporaryDir() {
  return mkdtempSync(join(watching().dir, "server-"));
}

/** Kills a child process when this process ends. */
export function reap(/** @type {number} */ pid) {
  pids.add(pid);
  watching().list.write(`+ ${pid}\n`);
}

/** Removes a process that has ended: its PID may be reused. */
export function reaped(/** @type {number} */ pid) {
  if (pids.delete(pid)) watching().list.write(`- ${pid}\n`);
}

function watching() {
  watch ??= startWatch();
  return watch;
}

function startWatch() {
  const dir = mkdtempSync(join(tmpdir(), "sluice-servers-"));
  // Detached: Ctrl-C in the terminal must not end it.
  const shell = spawn("sh", ["-c", WATCH, "watch", dir], { stdio: ["pipe", "ignore", "ignore"], detached: true });
  shell.on("error", () => {});
  shell.stdin.on("error", () => {});
  shell.unref();
  // A socket, though not by type. Bun has no `unref` on it.
  const { stdin } = /** @type {{ stdin: { unref?(): void } }} */ (/** @type {unknown} */ (shell));
  stdin.unref?.();

  process.once("exit", () => {
    for (const pid of pids) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // Already ended.
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
