/** Installs the packages of a folder that has a lock file of its own. */
import { execFileSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** This folder, for those who use what is installed here. */
export const runtimesFolder = dirname(fileURLToPath(import.meta.url));

/** What runs in workerd alone, which the ordinary tests need too: on any machine, and not much of it. */
export const workerdFolder = join(runtimesFolder, "workerd");

/**
 * Installs what the lock file says, unless that was done since it was written. Runs no scripts of packages.
 * @param {string} folder
 */
export function install(folder) {
  const changed = (/** @type {string} */ path) => statSync(join(folder, path)).mtimeMs;
  const installed = "node_modules/.package-lock.json";
  if (existsSync(join(folder, installed)) && changed(installed) >= changed("package-lock.json")) return;
  execFileSync("npm", ["ci", "--ignore-scripts"], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
}
