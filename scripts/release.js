/**
 * Releases the version in package.json. Checks it, tags it and pushes the tag; .github/workflows/release.yml publishes.
 *
 *   npm run release -- --dry-run                  all checks, without tagging or publishing
 *   npm run release                               all checks, then the tag
 *   node scripts/release.js --check-tag v1.2.3    the checks that hold for a tag; release.yml runs them
 *
 * The tests are not run here: release.yml runs them before it publishes.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { basename, join, posix } from "node:path";
import { argv, exit } from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { BUILDS, entryFiles } from "./subpaths.js";

/** @typedef {{ name: string, problem: () => string | undefined }} Check `problem` is undefined if the check passes */
/** @typedef {{ version: string, repository: { url: string } }} Manifest */

const root = fileURLToPath(new URL("..", import.meta.url));

/** The files of the package outside dist/. */
const DOCUMENTS = ["CHANGELOG.md", "LICENSE", "README.md", "THIRD-PARTY.md", "package.json"];

/** @type {Manifest} */
const manifest = JSON.parse(read("package.json"));
const tag = `v${manifest.version}`;
// "git+https://host/owner/name.git" -> "https://host/owner/name"
const repositoryUrl = manifest.repository.url.replace(/^git\+/, "").replace(/\.git$/, "");

/** @type {Check[]} */
const versionChecks = [
  { name: "the changelog has this version and its date", problem: () => changelogProblem(read("CHANGELOG.md")) },
  { name: "the package contains the build and its documents only", problem: packageProblem },
];

/** @type {Check[]} */
const repositoryChecks = [
  {
    name: "the working tree is clean",
    problem: () => (git("status", "--porcelain") === "" ? undefined : "Commit or remove the changes first."),
  },
  {
    name: "the branch is main",
    problem: () => {
      const branch = git("rev-parse", "--abbrev-ref", "HEAD");
      return branch === "main" ? undefined : `The branch is ${branch}. Check out main.`;
    },
  },
  { name: "origin is the repository in package.json", problem: originProblem },
  { name: "main is pushed and the tag is new", problem: pushedProblem },
];

/** Compares the newest heading of the changelog, such as `## 1.2.3 - 2026-01-31`, with package.json. */
function changelogProblem(/** @type {string} */ changelog) {
  if (!/^\d+\.\d+\.\d+$/.test(manifest.version)) {
    return `package.json has ${manifest.version}. release.yml publishes to the dist-tag "latest", so prereleases are refused.`;
  }
  const [, heading = "no heading"] = /^## (.+)$/m.exec(changelog) ?? [];
  const [, version, date] = /^\[?([^\]\s]+)\]? - (.+)$/.exec(heading) ?? [];
  if (version !== manifest.version)
    return `package.json has ${manifest.version}, CHANGELOG.md begins with "${heading}".`;
  return /^\d{4}-\d\d-\d\d$/.test(date ?? "") ? undefined : `Replace "${date}" in CHANGELOG.md by the date.`;
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

/** The entry points in dist/, and every chunk that they import. */
function builtFiles() {
  const endings = Object.values(BUILDS).flatMap(({ code, types }) => [code, types]);
  const names = entryFiles.map((file) => `dist/${basename(file, ".ts")}`);
  const found = new Set(names.flatMap((name) => endings.map((ending) => `${name}${ending}`)));
  // The loop also visits the chunks that it adds.
  for (const file of found) {
    for (const [, path = ""] of read(file).matchAll(/(?:from|import\(?|require\() ?"(\.[^"]+)"/g)) {
      const chunk = posix.join("dist", path);
      found.add(/\.d\.c?ts$/.test(file) ? chunk.replace(/\.(c?)js$/, ".d.$1ts") : chunk);
    }
  }
  const code = [...found].filter((file) => /js$/.test(file));
  return [...found, ...code.map((file) => `${file}.map`)];
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
function passes(/** @type {Check[]} */ checks) {
  let passed = true;
  for (const { name, problem } of checks) {
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
    options: { "dry-run": { type: "boolean" }, "check-tag": { type: "string" } },
  });
  const given = values["check-tag"];
  if (given !== undefined) {
    const problem = () =>
      given === tag ? undefined : `The tag is ${given}, but package.json has ${manifest.version}.`;
    return passes([{ name: "the tag is the version in package.json", problem }, ...versionChecks]) ? 0 : 1;
  }
  if (!passes([...repositoryChecks, ...versionChecks])) return 1;
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
