/**
 * Releases the version in package.json. Checks it, tags it and pushes the tag; .github/workflows/release.yml publishes.
 *
 *   npm run release -- --dry-run                  all checks, without tagging or publishing
 *   npm run release -- --dry-run --local          only the checks that hold in every clone; .ci/run runs them
 *   npm run release                               all checks, then the tag
 *   node scripts/release.js --check-tag v1.2.3    the checks that hold for a tag; release.yml runs them
 *
 * The tests are not run here: release.yml runs them before it publishes.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join, posix } from "node:path";
import { argv, exit } from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { makeJsr } from "./make-jsr.js";
import { packageExports } from "./subpaths.js";

/**
 * @typedef {object} Check
 * @property {string} name
 * @property {() => string | undefined} problem undefined if the check passes
 * @property {boolean} [onlyForRelease] whether it can fail in a clone that is otherwise ready
 */
/** @typedef {{ version: string, repository: { url: string } }} Manifest */

const root = fileURLToPath(new URL("..", import.meta.url));

/** The files of the package outside dist/. */
const DOCUMENTS = ["CHANGELOG.md", "LICENSE", "README.md", "THIRD-PARTY.md", "package.json", "rules.schema.json"];

/** @type {Manifest} */
const manifest = JSON.parse(read("package.json"));
const tag = `v${manifest.version}`;
// "git+https://host/owner/name.git" -> "https://host/owner/name"
const repositoryUrl = manifest.repository.url.replace(/^git\+/, "").replace(/\.git$/, "");

/** @type {Check[]} */
const versionChecks = [
  { name: "the changelog begins with this version", problem: () => headingProblem(read("CHANGELOG.md")) },
  { name: "the changelog has its date", problem: () => dateProblem(read("CHANGELOG.md")), onlyForRelease: true },
  {
    name: "jsr.json is fresh",
    problem: () => (read("jsr.json") === makeJsr() ? undefined : "Run node scripts/make-jsr.js."),
  },
  { name: "the package contains the build and its documents only", problem: packageProblem },
];

/** @type {Check[]} */
const repositoryChecks = [
  {
    name: "the working tree is clean",
    problem: () => {
      const changes = git("status", "--porcelain");
      return changes === "" ? undefined : `Commit or remove the changes first:\n${changes}`;
    },
  },
  {
    name: "the branch is main",
    onlyForRelease: true,
    problem: () => {
      const branch = git("rev-parse", "--abbrev-ref", "HEAD");
      return branch === "main" ? undefined : `The branch is ${branch}. Check out main.`;
    },
  },
  { name: "origin is the repository in package.json", problem: originProblem, onlyForRelease: true },
  { name: "main is pushed and the tag is new", problem: pushedProblem, onlyForRelease: true },
];

/** Compares the newest heading of the changelog, such as `## 1.2.3 - 2026-01-31`, with package.json. */
function headingProblem(/** @type {string} */ changelog) {
  if (!/^\d+\.\d+\.\d+$/.test(manifest.version)) {
    return `package.json has ${manifest.version}. release.yml publishes to the dist-tag "latest", so prereleases are refused.`;
  }
  const { heading, version } = newestHeading(changelog);
  if (version === manifest.version) return undefined;
  return `package.json has ${manifest.version}, CHANGELOG.md begins with "${heading}".`;
}

function dateProblem(/** @type {string} */ changelog) {
  const { date } = newestHeading(changelog);
  return /^\d{4}-\d\d-\d\d$/.test(date ?? "") ? undefined : `Replace "${date}" in CHANGELOG.md by the date.`;
}

function newestHeading(/** @type {string} */ changelog) {
  const [, heading = "no heading"] = /^## (.+)$/m.exec(changelog) ?? [];
  const [, version, date] = /^\[?([^\]\s]+)\]? - (.+)$/.exec(heading) ?? [];
  return { heading, version, date };
}

/** Builds the package and compares the files that npm would publish with those that it needs. */
function packageProblem() {
  npm("run", "--silent", "build");
  const [packed] = JSON.parse(npm("pack", "--dry-run", "--json", "--ignore-scripts"));
  const files = new Set(packed.files.map((/** @type {{ path: string }} */ file) => file.path));
  const allowed = new Set([...DOCUMENTS, ...builtFiles()]);
  const missing = [...allowed].filter((file) => !files.has(file));
  const extra = [...files].filter((file) => !allowed.has(file));
  if (missing.length + extra.length === 0) return undefined;
  return `Missing: ${missing.join(", ") || "none"}. Not expected: ${extra.join(", ") || "none"}.`;
}

/** The files that the exports name, their declarations, and every chunk that they import. */
function builtFiles() {
  const exported = [...JSON.stringify(packageExports).matchAll(/"\.\/(dist\/[^"]+)"/g)].map(([, file = ""]) => file);
  const found = new Set(exported.flatMap((file) => [file, declarationOf(file)]));
  // The loop also visits the chunks that it adds.
  for (const file of found) {
    for (const [, path = ""] of read(file).matchAll(/(?:from|import\(?|require\() ?"(\.[^"]+)"/g)) {
      const chunk = posix.join("dist", path);
      found.add(/\.d\.c?ts$/.test(file) ? declarationOf(chunk) : chunk);
    }
  }
  return [...found];
}

/** "x.js" -> "x.d.ts" and "x.cjs" -> "x.d.cts" */
function declarationOf(/** @type {string} */ file) {
  return file.replace(/\.(c?)js$/, ".d.$1ts");
}

/** A tag pushed to a fork would start the fork's workflow. */
function originProblem() {
  const [, path] = /([^/:]+\/[^/:]+?)(?:\.git)?\/?$/.exec(git("remote", "get-url", "origin")) ?? [];
  return path && repositoryUrl.endsWith(`/${path}`) ? undefined : `Set origin to ${repositoryUrl}.`;
}

function pushedProblem() {
  const remote = git("ls-remote", "origin", "refs/heads/main", `refs/tags/${tag}`);
  if (remote.includes(`refs/tags/${tag}`) || git("tag", "--list", tag) !== "") {
    return `${tag} exists. Raise the version: npm does not accept the same one twice.`;
  }
  const pushed = remote.startsWith(git("rev-parse", "HEAD"));
  return pushed ? undefined : "HEAD differs from main on origin. Pull, or push and wait for CI.";
}

/** Runs all checks, prints a line for each, and returns whether all passed. */
function passes(/** @type {Check[]} */ checks, local = false) {
  let passed = true;
  for (const { name, problem, onlyForRelease } of checks) {
    if (local && onlyForRelease) {
      console.log(`n/a     ${name}: not applicable with --local`);
      continue;
    }
    const found = attempt(problem);
    console.log(found === undefined ? `ok      ${name}` : `FAILED  ${name}: ${found}`);
    passed &&= found === undefined;
  }
  return passed;
}

/** A command that fails, such as git without a remote, is a problem like any other. */
function attempt(/** @type {Check["problem"]} */ problem) {
  try {
    return problem();
  } catch (error) {
    const { stderr, message } = /** @type {Error & { stderr?: string }} */ (error);
    return (stderr?.trim() || message).replaceAll("\n", "\n        ");
  }
}

function read(/** @type {string} */ path) {
  return readFileSync(join(root, path), "utf8");
}

function git(/** @type {string[]} */ ...args) {
  return run("git", args);
}

function npm(/** @type {string[]} */ ...args) {
  return run("npm", args);
}

function run(/** @type {string} */ command, /** @type {string[]} */ args) {
  return execFileSync(command, args, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
}

/** Returns the exit code. */
function main(/** @type {string[]} */ args) {
  const { values } = parseArgs({
    args,
    options: { "dry-run": { type: "boolean" }, local: { type: "boolean" }, "check-tag": { type: "string" } },
  });
  if (values.local && !values["dry-run"]) throw new Error("--local is only for --dry-run.");
  const given = values["check-tag"];
  if (given !== undefined) {
    const problem = () =>
      given === tag ? undefined : `The tag is ${given}, but package.json has ${manifest.version}.`;
    return passes([{ name: "the tag is the version in package.json", problem }, ...versionChecks]) ? 0 : 1;
  }
  if (!passes([...repositoryChecks, ...versionChecks], values.local)) return 1;
  if (values["dry-run"]) {
    console.log(`Dry run: ${tag} was not tagged and not published.`);
    return 0;
  }
  git("tag", "--annotate", tag, "--message", tag);
  git("push", "origin", tag);
  console.log(
    `Pushed ${tag}. It is published when this workflow is green: ${repositoryUrl}/actions/workflows/release.yml`,
  );
  return 0;
}

if (argv[1] === fileURLToPath(import.meta.url)) exit(main(argv.slice(2)));
