/** Finds Prometheus and promtool, or installs them. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { ensureProgram } from "./ensure-program.js";

const run = promisify(execFile);

const COMMANDS = ["prometheus", "promtool"];

/** @type {Promise<void> | undefined} */
let ensured;

/** Ensures that `prometheus` and `promtool` exist. Installs them with apt if possible. */
export function ensurePrometheus() {
  ensured ??= ensureProgram({
    name: "prometheus",
    commands: COMMANDS,
    advice: "Install Prometheus 2.42 or newer and add prometheus and promtool to the PATH.",
    problem: findProblem,
  });
  return ensured;
}

async function findProblem() {
  for (const command of COMMANDS) {
    const isFound = await run(command, ["--version"]).then(
      () => true,
      () => false,
    );
    if (!isFound) return `there is no ${command}`;
  }
  return undefined;
}
