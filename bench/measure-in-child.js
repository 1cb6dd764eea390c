/** Measures in a child process each time: the engine's optimisations for one contender must not affect another. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const child = fileURLToPath(new URL("child.js", import.meta.url));

/** Runs `measure(task)` of a benchmark in a new process. */
export async function measureInChild(part, task, flags = []) {
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, child, part, JSON.stringify(task)]);
  return JSON.parse(stdout);
}
