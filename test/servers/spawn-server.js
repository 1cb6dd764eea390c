/** Spawns redis-server and waits until it listens. */
import { spawn } from "node:child_process";
import { reap, reaped } from "./reaper.js";

const START_MS = 10_000;
const END_MS = 5000;

/** Starts redis-server and waits for the line in its log that reports it as ready. */
export async function spawnServer(
  /** @type {string[]} */ args,
  /** @type {number} */ port,
  /** @type {NodeJS.ProcessEnv} */ env,
) {
  const child = spawn("redis-server", args, { env, stdio: ["ignore", "pipe", "pipe"] });
  const pid = child.pid ?? 0;
  let alive = pid !== 0;
  let written = "";
  const log = () => written.trim().split("\n").slice(-8).join("\n");
  const failure = (/** @type {string} */ what) => new Error(`redis-server on port ${port} ${what}: ${log()}`);
  if (alive) reap(pid);
  child.once("exit", () => {
    alive = false;
    reaped(pid);
  });

  try {
    await /** @type {Promise<void>} */ (
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(failure(`did not answer within ${START_MS / 1000} s`)), START_MS);
        const finish = (/** @type {() => void} */ how) => {
          clearTimeout(timer);
          how();
        };
        const read = (/** @type {Buffer} */ chunk) => {
          written = (written + chunk).slice(-20_000);
          if (/Ready to accept connections|Sentinel ID is/.test(written)) finish(resolve);
        };
        child.stdout.on("data", read);
        child.stderr.on("data", read);
        child.once("error", (error) => finish(() => reject(error)));
        // 'close' is emitted after 'exit', when the whole log is read.
        child.once("close", (code, signal) => finish(() => reject(failure(`ended with ${code ?? signal}`))));
      })
    );
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
  // Don't keep a program alive that does not call `stop`. The server ends with it.
  child.unref();
  for (const stream of [child.stdout, child.stderr]) {
    /** @type {import("node:net").Socket} */ (/** @type {unknown} */ (stream)).unref();
  }

  return {
    pid,
    log,
    get alive() {
      return alive;
    },
    /** Resolves when the process is gone. @returns {Promise<void>} */
    ended: () =>
      new Promise((resolve, reject) => {
        if (!alive) return resolve();
        // The timer also keeps this process alive until the server has ended.
        const timer = setTimeout(() => reject(failure(`did not end within ${END_MS / 1000} s`)), END_MS);
        child.once("exit", () => {
          clearTimeout(timer);
          resolve();
        });
      }),
  };
}
