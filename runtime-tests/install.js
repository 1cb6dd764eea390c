/** Installs the packages of a folder with its own lock file. */
import { execFileSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** This folder, with the packages of the runtimes. */
export const runtimesFolder = dirname(fileURLToPath(import.meta.url));

/** The packages for workerd. Kept apart because `npm test` needs them on every platform. */
export const workerdFolder = join(runtimesFolder, "workerd");

/**
 * Runs `npm ci` unless the installation is newer than the lock file. Install scripts are not run.
 * @param {string} folder
 */
export function install(folder) {
  const changed = (/** @type {string} */ path) => statSync(join(folder, path)).mtimeMs;
  const installed = "node_modules/.package-lock.json";
  if (existsSync(join(folder, installed)) && changed(installed) >= changed("package-lock.json")) return;
  execFileSync("npm", ["ci", "--ignore-scripts"], {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit"],
    // npm is a script on Windows, which only a shell can start.
    shell: process.platform === "win32",
  });
}

/** Platforms that workerd is published for, as in the names of its packages. */
const WORKERD_PLATFORMS = ["darwin-x64", "darwin-arm64", "linux-x64", "linux-arm64", "win32-x64"];

/** The reason why workerd can't run on this machine, or undefined. */
export function workerdProblem() {
  const platform = `${process.platform}-${process.arch}`;
  return WORKERD_PLATFORMS.includes(platform) ? undefined : `There is no workerd for ${platform}. Use another machine.`;
}
