/**
 * Joins the Lua files of the Redis stores into one script each and writes it, with its SHA-1, as a module: no file is read
 * at run time. `npm run docs` runs it; a test fails if a module is stale.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const at = (/** @type {string} */ path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const target = at("src/stores/redis/script.ts");
const idempotencyTarget = at("src/stores/redis/idempotency/script.ts");

const folder = at("src/stores/redis/lua");

/** The part after which everything is one function: closures that Lua creates in a function cost less than in the main chunk. */
const FAST_PATH = "take-tokens";

/** The parts that every algorithm uses, and the parts that use the algorithms. */
const [BEFORE, AFTER] = [
  ["clock", "numbers", "take-tokens", "algorithm", "token-bucket"],
  ["modes", "take-groups", "holds", "step"],
];

/** All parts in order. A file that is in neither list is an algorithm and goes between them. */
export const PARTS = [
  ...BEFORE,
  ...readdirSync(folder)
    .map((file) => basename(file, ".lua"))
    .filter((part) => ![...BEFORE, ...AFTER].includes(part))
    .sort(),
  ...AFTER,
];

/** The script without comments. `replaced` overrides parts by name; `added` appends algorithms. */
export function joinScript(/** @type {Record<string, string>} */ replaced = {}, /** @type {string[]} */ added = []) {
  const texts = PARTS.flatMap((part) => [
    ...(part === AFTER[0] ? added : []),
    replaced[part] ?? readPart(part),
    ...(part === FAST_PATH ? ["return (function()"] : []),
  ]);
  return withoutComments([...texts, "end)()"]);
}

/** The script of the idempotency store without comments. `replaced` overrides parts by name. */
export function joinIdempotencyScript(/** @type {Record<string, string>} */ replaced = {}) {
  const own = readFileSync(at("src/stores/redis/idempotency/idempotency.lua"), "utf8");
  const shared = ["clock", "numbers"].map((part) => replaced[part] ?? readPart(part));
  return withoutComments([...shared, replaced.idempotency ?? own]);
}

function withoutComments(/** @type {string[]} */ texts) {
  return texts
    .join("\n")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("--"))
    .join("\n");
}

/** Reads a Lua file. */
export function readPart(/** @type {string} */ part) {
  return readFileSync(at(`src/stores/redis/lua/${part}.lua`), "utf8");
}

/** The SHA-1 by which Redis identifies a script. */
export function shaOf(/** @type {string} */ script) {
  return createHash("sha1").update(script).digest("hex");
}

/** The text of the generated module of the rate limit store. */
export function scriptModule() {
  return moduleOf("The script of the Redis store. Generated from lua/", joinScript());
}

/** The text of the generated module of the idempotency store. */
export function idempotencyModule() {
  const source = "The script of the idempotency store. Generated from idempotency.lua and ../lua/";
  return moduleOf(source, joinIdempotencyScript());
}

function moduleOf(/** @type {string} */ source, /** @type {string} */ script) {
  const lines = script.split("\n").map((line) => line.replaceAll("\\", "\\\\").replaceAll("`", "\\`"));
  return `/** ${source} by scripts/make-redis-script.js; do not edit. */

export const script: string = \`${lines.join("\n")}\`;

/** The script's SHA-1, its name in Redis. */
export const sha: string = "${shaOf(script)}";
`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  writeFileSync(target, scriptModule());
  writeFileSync(idempotencyTarget, idempotencyModule());
}
