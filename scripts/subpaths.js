/**
 * Reads subpaths.json, the single list of the package's subpaths. Build entries, test aliases and the reference are
 * generated from it. `node scripts/subpaths.js` writes the exports of package.json and src/base/version.ts, and
 * test/package.test.ts checks both.
 *
 * Each subpath has one file in src/entries/, or one per export condition.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { argv } from "node:process";
import { fileURLToPath } from "node:url";

const at = (/** @type {string} */ path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** @type {Record<string, string | Record<string, string>>} */
const list = JSON.parse(readFileSync(at("subpaths.json"), "utf8"));

/**
 * Every subpath, with the entry that describes it: the one of its `default` condition.
 * @type {{ subpath: string, name: string, entry: string, conditions: Record<string, string> }[]}
 */
export const subpaths = Object.entries(list).map(([subpath, files]) => {
  const conditions = typeof files === "string" ? { default: files } : files;
  const entry = /** @type {string} */ (conditions.default);
  return { subpath, name: `sluice${subpath.slice(1)}`, entry, conditions };
});

/** The source files to build, each once. */
export const entryFiles = [
  ...new Set(subpaths.flatMap(({ conditions }) => Object.values(conditions).map((file) => `src/entries/${file}.ts`))),
];

/** The endings of the two builds, by export condition. */
export const BUILDS = { import: { code: ".js", types: ".d.ts" }, require: { code: ".cjs", types: ".d.cts" } };

/** The exports that are files of their own: editors find the schema of rules by its path. */
export const JSON_FILES = ["./rules.schema.json", "./package.json"];

/** The `exports` of package.json. */
export const packageExports = {
  ...Object.fromEntries(
    subpaths.map(({ subpath, entry, conditions }) => [
      subpath,
      Object.fromEntries(
        Object.entries(BUILDS).map(([build, { code, types }]) => [
          build,
          {
            types: `./dist/${entry}${types}`,
            ...Object.fromEntries(Object.entries(conditions).map(([name, file]) => [name, `./dist/${file}${code}`])),
          },
        ]),
      ),
    ]),
  ),
  ...Object.fromEntries(JSON_FILES.map((file) => [file, file])),
};

/** The `typesVersions` of package.json, for `moduleResolution: node10`, which ignores `exports`. */
export const typesVersions = {
  "*": Object.fromEntries(
    subpaths
      .filter(({ subpath }) => subpath !== ".")
      .map(({ subpath, entry }) => [subpath.slice(2), [`./dist/${entry}.d.cts`]]),
  ),
};

if (argv[1] === fileURLToPath(import.meta.url)) {
  const path = at("package.json");
  const manifest = JSON.parse(readFileSync(path, "utf8"));
  writeFileSync(path, `${JSON.stringify({ ...manifest, exports: packageExports, typesVersions }, null, 2)}\n`);
  const version = at("src/base/version.ts");
  const text = readFileSync(version, "utf8");
  writeFileSync(version, text.replace(/VERSION = ".*"/, `VERSION = "${manifest.version}"`));
}
