/** The packed package in projects as users have them: Jest, Vitest, node:test, tsx, ts-node and tsc. Needs `npm run build`. */
import { execFile, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "../..");
const folder = mkdtempSync(join(tmpdir(), "sluice-packaging-"));
const packages = join(folder, "node_modules");
/** The JavaScript file that a command of node_modules/.bin starts. */
const tools = {
  jest: "jest/bin/jest.js",
  "ts-node": "ts-node/dist/bin.js",
  tsc: "typescript/bin/tsc",
  tsx: "tsx/dist/cli.mjs",
  vitest: "vitest/vitest.mjs",
};

/** Runs Node in a sample and returns its output. The output of a failed command is part of the error. */
async function run(sample: string, args: string[]): Promise<string> {
  // Without the variables of the Vitest that runs this file.
  const env = { PATH: process.env.PATH, HOME: folder, CI: "true", NO_COLOR: "1" };
  const options = { cwd: join(folder, sample), env, timeout: 60_000 };
  const running = promisify(execFile)(process.execPath, args, options);
  const fail = ({ message, stdout }: { message: string; stdout: string }) =>
    Promise.reject(new Error(`${message}${stdout}`));
  const { stdout, stderr } = await running.catch(fail);
  return stdout + stderr;
}

const tool = (name: keyof typeof tools): string => join(packages, tools[name]);

/** Starts an app that prints its port, and returns the statuses of four requests. */
async function fourRequests(sample: string, args: string[]): Promise<number[]> {
  const app = spawn(process.execPath, args, { cwd: join(folder, sample), stdio: ["ignore", "pipe", "inherit"] });
  try {
    const [port] = (await createInterface(app.stdout)[Symbol.asyncIterator]().next()).value?.match(/^\d+$/) ?? [];
    expect(port, "the app prints its port").toBeDefined();
    const statuses: number[] = [];
    for (let i = 0; i < 4; i++) statuses.push((await fetch(`http://127.0.0.1:${port}/`)).status);
    return statuses;
  } finally {
    app.kill();
  }
}

beforeAll(async () => {
  if (!existsSync(join(root, "dist/index.cjs"))) throw new Error("dist/ is missing. Run `npm run build` first.");
  cpSync(join(here, "node_modules"), packages, { recursive: true, verbatimSymlinks: true });
  cpSync(join(here, "samples"), folder, { recursive: true });
  const pack = ["pack", "--json", "--ignore-scripts", "--pack-destination", folder];
  const { stdout } = await promisify(execFile)("npm", pack, { cwd: root });
  const tarball = join(folder, JSON.parse(stdout)[0].filename);
  // As npm does: the package is a folder in node_modules and not a link to the repository.
  mkdirSync(join(packages, "sluice"));
  await promisify(execFile)("tar", ["-xzf", tarball, "--strip-components=1", "-C", join(packages, "sluice")]);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("an Express app", () => {
  const limited = [200, 200, 200, 429];

  it("as an ES module", async () => {
    expect(await fourRequests("esm", ["app.mjs"])).toEqual(limited);
  });

  it("as CommonJS", async () => {
    expect(await fourRequests("commonjs", ["app.cjs"])).toEqual(limited);
  });

  it("as CommonJS without require(esm), as on Node before 20.19", async () => {
    expect(await fourRequests("commonjs", ["--no-experimental-require-module", "app.cjs"])).toEqual(limited);
  });

  it("in TypeScript with tsx", async () => {
    expect(await fourRequests("typescript", [tool("tsx"), "app.ts"])).toEqual(limited);
  });

  it("in TypeScript with ts-node", async () => {
    expect(await fourRequests("typescript", [tool("ts-node"), "app.ts"])).toEqual(limited);
  });
});

describe("tests of an app", () => {
  it("in Jest, without configuration", async () => {
    expect(await run("jest", [tool("jest")])).toMatch(/Tests: +(\d{3,}) passed, \1 total/);
  });

  it("in Vitest", async () => {
    expect(await run("vitest", [tool("vitest"), "run"])).toMatch(/Tests +\d{3,} passed/);
  });

  it("with node --test, as ES module and CommonJS", async () => {
    const output = await run("node-test", ["--test"]);
    expect(output).toMatch(/^# pass [1-9]\d{2,}$/m);
    expect(output).toMatch(/^# fail 0$/m);
  });
});

describe("TypeScript 6 with skipLibCheck off", () => {
  it.each([
    ["node16, from CommonJS", ["--module", "node16"]],
    ["nodenext, from CommonJS", ["--module", "nodenext"]],
    ["bundler", ["--module", "esnext", "--moduleResolution", "bundler"]],
    ["node10", ["--module", "commonjs", "--moduleResolution", "node10", "--ignoreDeprecations", "6.0"]],
  ])("resolves every subpath by %s", async (_name, args) => {
    expect(await run("typescript", [tool("tsc"), "-p", ".", ...args])).toBe("");
  });
});
