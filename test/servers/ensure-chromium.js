/** Finds Chromium, or installs it. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { ensureProgram } from "./ensure-program.js";

const run = promisify(execFile);

/** @type {Promise<void> | undefined} */
let ensured;

/** Ensures that `chromium` exists. Installs it with apt if possible. */
export function ensureChromium() {
  ensured ??= ensureProgram({
    name: "chromium",
    commands: ["chromium"],
    advice: "Install Chromium and add it to the PATH as `chromium`.",
    problem: findProblem,
  });
  return ensured;
}

function findProblem() {
  return run("chromium", ["--version"]).then(
    () => undefined,
    () => "there is no chromium",
  );
}
