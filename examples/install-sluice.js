/**
 * Installs the packages of an example that has its own, with sluice packed from this repository: its version is not on npm yet.
 * `npm run install:local` in the example's folder runs this.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { argv } from "node:process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Installs the packages of the repository and builds it, where that was not done. */
export function prepareRepository() {
  if (!existsSync(join(root, "node_modules"))) {
    console.log("Installing packages…");
    npm(root, "ci");
  }
  if (!existsSync(join(root, "dist/index.js"))) {
    console.log("Building…");
    npm(root, "run", "--silent", "build");
  }
}

/** Installs into a folder, without changing its package.json. */
export function installSluice(/** @type {string} */ folder) {
  console.log("Installing sluice and the packages of the example…");
  const temporary = mkdtempSync(join(tmpdir(), "sluice-pack-"));
  try {
    if (existsSync(join(folder, "package-lock.json"))) npm(folder, "ci", "--no-audit", "--no-fund");
    const packed = npm(root, "pack", "--json", "--ignore-scripts", "--pack-destination", temporary);
    const tarball = join(temporary, JSON.parse(packed)[0].filename);
    npm(folder, "install", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", tarball);
  } finally {
    rmSync(temporary, { recursive: true });
  }
}

function npm(/** @type {string} */ cwd, /** @type {string[]} */ ...args) {
  // npm is a script on Windows, which only a shell can start.
  const shell = process.platform === "win32";
  return execFileSync("npm", args, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"], shell });
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  prepareRepository();
  installSluice(process.cwd());
}
