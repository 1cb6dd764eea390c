/** Installs the packages of folders with lock files of their own. */
import { execFile, execFileSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

/** This folder, with the packages of the runtimes. */
export const runtimesFolder = dirname(fileURLToPath(import.meta.url));

/** The packages for workerd. Kept apart because `npm test` needs them on every platform. */
export const workerdFolder = join(runtimesFolder, "workerd");

/**
 * Runs `npm ci` unless the installation is newer than the lock file. Install scripts are not run.
 * @param {string} folder
 */
export function install(folder) {
  if (isInstalled(folder)) return;
  execFileSync("npm", INSTALL, { ...optionsFor(folder), stdio: ["ignore", "ignore", "inherit"] });
}

/** Installations at the same time. Most of their time is spent waiting for the registry. */
const MAX_AT_ONCE = 4;

/**
 * The same for several folders, a few at a time.
 * @param {readonly string[]} folders
 */
export async function installAll(folders) {
  const waiting = folders.filter((folder) => !isInstalled(folder));
  const work = async () => {
    for (let folder = waiting.shift(); folder !== undefined; folder = waiting.shift()) {
      await promisify(execFile)("npm", INSTALL, { ...optionsFor(folder), maxBuffer: 2 ** 24 });
    }
  };
  await Promise.all(Array.from({ length: MAX_AT_ONCE }, work));
}

const INSTALL = ["ci", "--ignore-scripts"];

/** npm is a script on Windows, which only a shell can start. */
const optionsFor = (/** @type {string} */ cwd) => ({ cwd, shell: process.platform === "win32" });

/** Whether an installation is newer than the lock file. */
function isInstalled(/** @type {string} */ folder) {
  const changed = (/** @type {string} */ path) => statSync(join(folder, path)).mtimeMs;
  const installed = "node_modules/.package-lock.json";
  return existsSync(join(folder, installed)) && changed(installed) >= changed("package-lock.json");
}

/** Platforms that workerd is published for, as in the names of its packages. */
const WORKERD_PLATFORMS = ["darwin-x64", "darwin-arm64", "linux-x64", "linux-arm64", "win32-x64"];

/** The reason why workerd can't run on this machine, or undefined. */
export function workerdProblem() {
  const platform = `${process.platform}-${process.arch}`;
  return WORKERD_PLATFORMS.includes(platform) ? undefined : `There is no workerd for ${platform}. Use another machine.`;
}
