/** Writes jsr.json, the package for JSR, from package.json and subpaths.json: `node scripts/make-jsr.js`. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { argv } from "node:process";
import { fileURLToPath } from "node:url";
import { subpaths } from "./subpaths.js";

const at = (/** @type {string} */ path) => fileURLToPath(new URL(`../${path}`, import.meta.url));

const EXCLUDED = /\.test\.ts$/;

/** The text of jsr.json. */
export function makeJsr() {
  const { name, version, license, repository } = JSON.parse(readFileSync(at("package.json"), "utf8"));
  const tested = testedVersions();
  // "git+https://host/owner/name.git" -> "owner"
  const [, owner] = /([^/]+)\/[^/]+$/.exec(repository.url) ?? [];
  const config = {
    $schema: "https://jsr.io/schema/config-file.v1.json",
    name: `@${owner}/${name}`,
    version,
    license,
    // JSR has no export conditions: each subpath is the entry of its `default` condition.
    exports: Object.fromEntries(subpaths.map(({ subpath, entry }) => [subpath, `./src/entries/${entry}.ts`])),
    imports: Object.fromEntries(
      importedPackages().map((imported) => {
        const range = tested.get(imported);
        if (!range) throw new Error(`${imported} is neither in devDependencies nor installed in integration/.`);
        return [imported, `npm:${imported}@${range}`];
      }),
    ),
    publish: {
      include: ["src/**/*.ts", "README.md", "CHANGELOG.md", "LICENSE", "THIRD-PARTY.md"],
      exclude: ["src/**/*.test.ts"],
    },
  };
  return `${JSON.stringify(config, null, 2)}\n`;
}

/**
 * The range of each package that tests install: that of devDependencies, or one that starts at the newest version in
 * integration/, such as "koa2": "npm:koa@2.16.2".
 */
function testedVersions() {
  /** @type {Map<string, string>} */
  const ranges = new Map();
  for (const folder of readdirSync(at("integration"))) {
    const file = at(`integration/${folder}/package.json`);
    const { dependencies = {} } = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
    for (const [key, value] of Object.entries(dependencies)) {
      const [, alias, version = ""] = /^(?:npm:(.+)@)?(\d.*)$/.exec(value) ?? [];
      const name = alias ?? key;
      const known = ranges.get(name)?.slice(1) ?? "0";
      if (version.localeCompare(known, "en", { numeric: true }) > 0) ranges.set(name, `^${version}`);
    }
  }
  const { devDependencies } = JSON.parse(readFileSync(at("package.json"), "utf8"));
  for (const [name, range] of Object.entries(devDependencies)) ranges.set(name, range);
  return ranges;
}

/** The npm packages that the published source imports. */
function importedPackages() {
  const files = readdirSync(at("src"), { recursive: true, encoding: "utf8" });
  const names = files
    .filter((file) => file.endsWith(".ts") && !EXCLUDED.test(file))
    .flatMap((file) => [
      ...readFileSync(at(`src/${file}`), "utf8").matchAll(
        /^(?:import|export) [^;]*?from "([^".][^"]*)"|\bimport\("([^".][^"]*)"\)/gm,
      ),
    ])
    .map(([, imported, loaded]) => imported ?? loaded ?? "")
    // Runtimes provide these.
    .filter((specifier) => !/^(?:node|cloudflare):/.test(specifier))
    // "@scope/name/file" -> "@scope/name"
    .map((specifier) => /^(?:@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? specifier);
  return [...new Set(names)].sort();
}

if (argv[1] === fileURLToPath(import.meta.url)) writeFileSync(at("jsr.json"), makeJsr());
