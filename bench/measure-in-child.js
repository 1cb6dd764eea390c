/** A process for each measurement, so that what the engine learns from one contender can't disturb another. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const child = fileURLToPath(new URL("child.js", import.meta.url));

/** Runs `measure(task)` of a part in a new process. */
export async function measureInChild(part, task, flags = []) {
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, child, part, JSON.stringify(task)]);
  return JSON.parse(stdout);
}
