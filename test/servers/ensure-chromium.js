/** Finds Chromium, or installs it. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { ensureProgram } from "./ensure-program.js";

const run = promisify(execFile);

/** @type {Promise<string> | undefined} */
let ensured;

/** Ensures that `chromium` exists, and returns its path. Installs it with apt if possible. */
export function ensureChromium() {
  ensured ??= ensureProgram({
    name: "chromium",
    commands: ["chromium"],
    advice: "Install Chromium and add it to the PATH as `chromium`.",
    problem: () =>
      findPath().then(
        () => undefined,
        () => "there is no chromium",
      ),
  }).then(findPath);
  return ensured;
}

async function findPath() {
  const { stdout } = await run("sh", ["-c", "command -v chromium"]);
  return stdout.trim();
}
