/** Counts what a reader of the source holds in mind: `node scripts/count-ideas.js [folder of the source]`. Prints a table. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const src = process.argv[2] ?? fileURLToPath(new URL("../src", import.meta.url));
const files = readdirSync(src, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".ts") && !/\.test\.ts$|^testing\//.test(file))
  .map((file) => ({ file, code: readFileSync(join(src, file), "utf8") }));

const matches = (/** @type {RegExp} */ pattern, /** @type {(file: string) => boolean} */ isIn = () => true) =>
  files.filter(({ file }) => isIn(file)).flatMap(({ code }) => [...code.matchAll(pattern)]);

/** Exported names with the files that declare them. */
const owners = new Map();
for (const { file, code } of files.filter(({ file }) => !file.startsWith("entries/"))) {
  for (const [, name] of code.matchAll(
    /^export (?:declare )?(?:abstract )?(?:async )?(?:function|const|class|interface|type) (\w+)/gm,
  )) {
    owners.set(name, (owners.get(name) ?? new Set()).add(file));
  }
}
const inLayers =
  (/** @type {string[]} */ ...layers) =>
  (/** @type {string} */ file) =>
    layers.some((layer) => file.startsWith(`${layer}/`));
const lines = files.reduce((sum, { code }) => sum + code.split("\n").length - 1, 0);
/** The members of an interface or class that look like methods. */
const methodsOf = (/** @type {RegExp} */ declaration) => {
  const [found] = matches(declaration);
  return found
    ? new Set(
        [...found[0].matchAll(/^ {2}(?:readonly (?=\w+: Apply)|)(\w+)\??(?:<[^>]*>)?(?:\(|: Apply)/gm)].map(
          ([, name]) => name,
        ),
      ).size
    : 0;
};

const rows = {
  "run-time files": files.length,
  "run-time lines": lines,
  'exported types with "Charge" in their name': [...owners.keys()].filter(
    (name) => /^[A-Z]\w*$/.test(name) && name.includes("Charge"),
  ).length,
  "exported views of a request (Reader, View, Context, Request)": [...owners.keys()].filter((name) =>
    /(?:Reader|View|Context|Request)$/.test(name),
  ).length,
  "methods between limiters and stores": methodsOf(/export interface (?:StorePort|Engine) \{[\s\S]*?^\}/gm),
  "limiter classes": matches(
    /^(?:export )?(?:abstract )?class (\w*(?:Limiter|Combined)\w*)/gm,
    inLayers("limiter", "core", "joint", "remote"),
  ).length,
  "call sites of attempt": matches(/\.attempt\(/g, (file) => !file.includes("idempotency")).length,
  "look-ups of an algorithm by its name": matches(/\balgorithms\[|algorithmOf\(|findAlgorithm\(/g).length,
  'questions "which kind of policy"': matches(
    /\bisPenalty\(|\bisConcurrency\(|\bholdsOnly\b|\.kind [!=]== |algorithm(?:\.name)? [!=]== "/g,
  ).length,
  "exported names with two owners": [...owners.values()].filter((set) => set.size > 1).length,
};
console.log("| idea | count |\n|---|---|");
for (const [name, value] of Object.entries(rows)) console.log(`| ${name} | ${value} |`);
