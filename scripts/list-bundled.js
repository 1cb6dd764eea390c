/**
 * Writes into THIRD-PARTY.md which subpaths contain code of each bundled package. Run it after `npm run build`:
 * node scripts/list-bundled.js. `npm run docs` runs it; test/package.test.ts fails if the lists are stale.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { argv } from "node:process";
import { fileURLToPath } from "node:url";
import { subpaths } from "./subpaths.js";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Text that the code of each bundled package contains. */
const MARKS = {
  "@noble/hashes": "node_modules/@noble/hashes",
  hono: "node_modules/hono/dist/router",
  "ipaddr.js": "ipaddr: ",
  isbot: "node_modules/isbot",
};

/** THIRD-PARTY.md with the current lists. */
export function withBundledLists(/** @type {string} */ page) {
  let result = page;
  for (const [name, mark] of Object.entries(MARKS)) {
    const list = subpaths
      .filter(({ conditions }) =>
        Object.values(conditions).some((file) => codeOf(join(root, "dist", `${file}.js`)).includes(mark)),
      )
      .map(({ name }) => `\`${name}\``);
    const text = list.length > 1 ? `${list.slice(0, -1).join(", ")} and ${list.at(-1)}` : list.join("");
    result = result.replace(new RegExp(`(\n## ${name}\n\n)(?:[^\n]+\n)+`), `$1Included in ${text}.\n`);
  }
  return result;
}

/** The code of a built file and of all files that it imports. */
function codeOf(/** @type {string} */ file, /** @type {Set<string>} */ seen = new Set()) {
  if (seen.has(file)) return "";
  seen.add(file);
  const code = readFileSync(file, "utf8");
  /** @type {string} */
  const imported = [...code.matchAll(/(?:from|import) ?"(\.[^"]+)"/g)]
    .map(([, path = ""]) => codeOf(join(dirname(file), path), seen))
    .join("");
  return code + imported;
}

if (argv[1] === fileURLToPath(import.meta.url)) {
  const path = join(root, "THIRD-PARTY.md");
  writeFileSync(path, withBundledLists(readFileSync(path, "utf8")));
}
