/** Runs a program and collects its output. Unlike spawnSync it doesn't block timers, such as those of a heartbeat. */
import { spawn } from "node:child_process";
import { once } from "node:events";

/**
 * Resolves when the program has ended. Rejects if it can't be started.
 * @param {string} command
 * @param {string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv }} [options]
 * @returns {Promise<{ status: number | null, stdout: string, stderr: string }>}
 */
export async function runChild(command, args, options = {}) {
  const child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (chunk) => {
    stdout += chunk;
  });
  child.stderr.setEncoding("utf8").on("data", (chunk) => {
    stderr += chunk;
  });
  const [status] = await once(child, "close");
  return { status, stdout, stderr };
}
