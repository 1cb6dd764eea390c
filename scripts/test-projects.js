/**
 * The projects of the tests. Every test file belongs to exactly one; `test/projects.test.ts` compares them with the files on
 * disk. `npm test` runs unit and system, `npm run test:ci` the rest, and the random tests of all at their full length.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Tests of the package, the docs, the examples and the repository. Some need `npm run build`. */
const RELEASE = [
  "test/docs.test.ts",
  "test/examples.test.ts",
  "test/framework-pages.test.ts",
  "test/frameworks-table.test.ts",
  "test/jsr.test.ts",
  "test/kept-keys.test.ts",
  "test/package.test.ts",
  "test/site.test.ts",
  "test/two-builds.test.ts",
];

/** Tests that run in workerd. */
const WORKERD = ["test/cloudflare/**/*.test.ts", "test/idempotency/objects.test.ts"];

/** Tests that must find a bug in a changed copy of the source. */
const MUTANTS = ["test/**/*mutants.test.ts"];

/** Tests that start servers or processes, or that need a process of their own. */
const SYSTEM = [
  "{src,test}/**/*.process.test.ts",
  "test/abuse/**/*.test.ts",
  "test/frameworks/**/*.test.ts",
  "test/idempotency/**/*.test.ts",
  "test/list-state/**/*.test.ts",
  "test/middleware/**/*.test.ts",
  "test/misuse/**/*.test.ts",
  "test/observe/**/*.test.ts",
  "test/plans.test.ts",
  "test/progress-reporter.test.ts",
  "test/projects.test.ts",
  "test/redis/**/*.test.ts",
  "test/repository.test.ts",
  "test/rules/**/*.test.ts",
  "test/servers/**/*.test.ts",
];

/** Each project with the files that it includes and excludes. */
export const projects = {
  unit: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    exclude: [...RELEASE, ...WORKERD, ...MUTANTS, ...SYSTEM],
  },
  system: { include: SYSTEM, exclude: [...WORKERD, ...MUTANTS] },
  workerd: { include: WORKERD, exclude: MUTANTS },
  release: { include: RELEASE, exclude: [] },
  mutants: { include: MUTANTS, exclude: [] },
};

const root = fileURLToPath(new URL("..", import.meta.url));

/** Whether a path matches a pattern with `**`, `*` and `{a,b}`. */
function matches(/** @type {string} */ pattern, /** @type {string} */ file) {
  const source = pattern.replace(/[.]/g, "\\.").replace(/\*\*\/|\*|\{([^}]*)\}/g, (found, choices) => {
    if (found === "**/") return "(?:[^/]+/)*";
    return found === "*" ? "[^/]*" : `(?:${choices.replaceAll(",", "|")})`;
  });
  return new RegExp(`^${source}$`).test(file);
}

/** Every test file of the source, relative to the root. */
export const allTestFiles = ["src", "test"].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".test.ts"))
    .map((file) => `${folder}/${file}`),
);

/** The test files of a project. */
export function testFiles(/** @type {string} */ name) {
  const { include, exclude } = projects[/** @type {keyof typeof projects} */ (name)];
  return allTestFiles.filter(
    (file) => include.some((one) => matches(one, file)) && !exclude.some((one) => matches(one, file)),
  );
}
