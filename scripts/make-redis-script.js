/**
 * Joins the Lua files of the Redis store into one script and writes it, with its SHA-1, as a module: nothing reads
 * disk at run time, and nobody types a hash. `npm run docs` runs it; a test fails when the module is stale.
 */
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";

const at = (/** @type {string} */ path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const target = at("src/stores/redis/script.ts");

/** In the order in which they use one another. */
export const PARTS = [
  "clock",
  "numbers",
  "take-tokens",
  "algorithm",
  "token-bucket",
  "leaky-bucket",
  "fixed-window",
  "sliding-window",
  "sliding-log",
  "step",
];

/** The whole script without its comments; `replaced` gives other text for some parts. */
export function joinScript(/** @type {Record<string, string>} */ replaced = {}) {
  return PARTS.map((part) => replaced[part] ?? readPart(part))
    .join("\n")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("--"))
    .join("\n");
}

/** One Lua file. */
export function readPart(/** @type {string} */ part) {
  return readFileSync(at(`src/stores/redis/lua/${part}.lua`), "utf8");
}

/** How Redis names a script. */
export function shaOf(/** @type {string} */ script) {
  return createHash("sha1").update(script).digest("hex");
}

/** The text of the generated module. */
export function scriptModule() {
  const script = joinScript();
  const lines = script.split("\n").map((line) => line.replaceAll("\\", "\\\\").replaceAll("`", "\\`"));
  return `/** The script of the Redis store. Made from lua/ by scripts/make-redis-script.js; do not edit. */

export const script: string = \`${lines.join("\n")}\`;

/** The script's SHA-1, by which Redis knows it. */
export const sha: string = "${shaOf(script)}";
`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) writeFileSync(target, scriptModule());
