/**
 * Builds the site into docs/.vitepress/dist, or serves it for writing with `dev`. Installs the packages of docs/ if they are missing:
 * node scripts/build-site.js [dev]
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { install } from "../runtime-tests/install.js";

const docs = fileURLToPath(new URL("../docs", import.meta.url));
const command = process.argv[2] ?? "build";

install(docs);
run(join(docs, "build-reference.js"));
run(join(docs, "node_modules/vitepress/bin/vitepress.js"), command, docs);

function run(/** @type {string} */ script, /** @type {string[]} */ ...args) {
  const { status, signal } = spawnSync(process.execPath, [script, ...args], { cwd: docs, stdio: "inherit" });
  if (status !== 0) {
    console.error(`${script} ended with ${signal ?? status}`);
    process.exit(1);
  }
}
