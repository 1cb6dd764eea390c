/** An empty project with the built package in it and nothing else, for the messages of Node and of TypeScript. */
import { execFile } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
let project = "";

/** Creates the project. Needs `npm run build`. */
export function createProject(): void {
  if (!existsSync(join(root, "dist/index.js"))) throw new Error("dist/ is missing. Run `npm run build` first.");
  project = mkdtempSync(join(tmpdir(), "sluice-misuse-"));
  // Copies: from a link, Node and TypeScript would find the packages of this repository.
  for (const path of ["dist", "package.json"]) {
    cpSync(join(root, path), join(project, "node_modules/sluice", path), { recursive: true });
  }
  mkdirSync(join(project, "types"));
  symlinkSync(join(root, "node_modules/@types/node"), join(project, "types/node"));
  writeFileSync(join(project, "package.json"), JSON.stringify({ name: "empty", private: true, type: "module" }));
}

export function removeProject(): void {
  rmSync(project, { recursive: true, force: true });
}

interface Output {
  readonly stdout: string;
  readonly stderr: string;
}

function run(file: string, args: readonly string[]): Promise<Output> {
  return new Promise((resolve) => {
    // The exit code is not needed: what is printed says more.
    execFile(file, args, { cwd: project, timeout: 60_000 }, (_error, stdout, stderr) => resolve({ stdout, stderr }));
  });
}

const runCode = (code: string): Promise<Output> =>
  run(process.execPath, ["--no-warnings", "--input-type=module", "--eval", code]);

/** Runs a module in the project, which has no such package, and returns what it prints. */
export async function runWithout(missing: string, code: string): Promise<string> {
  if (existsSync(join(project, "node_modules", missing))) throw new Error(`The project has the package ${missing}.`);
  const { stdout, stderr } = await runCode(code);
  return (stdout + stderr).trim();
}

/** Runs a module that fails, and returns the line with its error. */
export async function failureOf(code: string): Promise<string | undefined> {
  const { stderr } = await runCode(code);
  return stderr.split("\n").find((line) => /^\w*Error/.test(line));
}

/** Type-checks modules by file name, all in one call, and returns the first line of each diagnostic by file. */
export async function diagnosticsOf(modules: Readonly<Record<string, string>>): Promise<Map<string, string[]>> {
  for (const [file, code] of Object.entries(modules)) writeFileSync(join(project, file), code);
  const compilerOptions = {
    target: "es2022",
    lib: ["es2023"],
    module: "esnext",
    moduleResolution: "bundler",
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    noEmit: true,
    typeRoots: ["types"],
    types: ["node"],
  };
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: Object.keys(modules) }));
  const { stdout, stderr } = await run(join(root, "node_modules/.bin/tsc"), ["-p", ".", "--pretty", "false"]);
  if (stderr.trim() !== "") throw new Error(stderr);
  const found = new Map<string, string[]>();
  for (const [, file = "", text = ""] of stdout.matchAll(/^(\S+)\(\d+,\d+\): (error TS.*)$/gm)) {
    found.set(file, [...(found.get(file) ?? []), text]);
  }
  return found;
}
