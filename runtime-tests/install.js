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
  execFileSync("npm", ["ci", "--ignore-scripts"], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
}
