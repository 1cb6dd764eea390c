/**
 * The blocks of the documentation that `npm test` can't run: they compile with the types of their runtime, and run in
 * it with the built package. One that has port 3000 in it is a server: it is visited, with one message of type "say".
 * Any other has to end by itself. What blocks say that they print is what they print, as in test/docs.test.ts.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { io } from "socket.io-client";
import { transformWithOxc } from "vite";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { WebSocket } from "ws";
import { install, runtimesFolder } from "../../runtime-tests/install.js";
import { freePort } from "../../test/servers/free-port.js";
import { type RedisServer, startRedis } from "../../test/servers/redis-server.js";
import { until } from "../../test/servers/until.js";
import {
  flat,
  nameOf,
  onPort,
  promisesOf,
  ROOT,
  read,
  type Snippet,
  says,
  snippetsOfKind,
  stagedCode,
} from "../../test/snippets.ts";

const here = dirname(fileURLToPath(import.meta.url));
/** Ignored by git, and in this folder, so that blocks find its packages. */
const CACHE = join(here, ".cache", `docs-${process.pid}`);
const installed = (path: string) => join(runtimesFolder, "node_modules", path);

/** How a file is run. The types of a runtime have its name. */
const COMMANDS = {
  node: [process.execPath],
  bun: [installed("@oven/bun-linux-x64/bin/bun")],
  deno: [installed("@deno/linux-x64-glibc/deno"), "run", "-A", "--no-lock", "--node-modules-dir=manual"],
};
type Runtime = keyof typeof COMMANDS;

const snippets = snippetsOfKind("bun", "deno", "socket.io", "ws-kit");
const runtimes = [...new Set(snippets.map(runtimeOf))];

/** ws-kit is at home on Bun, and its router runs anywhere. */
function runtimeOf(snippet: Snippet): Runtime {
  const { kind } = snippet;
  if (kind === "bun" || kind === "deno") return kind;
  return says(snippet, "Bun.") ? "bun" : "node";
}

/** Writes down what a block prints, one line of JSON for each time. */
const STAGE = `import process from "node:process";
import { format } from "node:util";
globalThis.stage = {
  log: (line, ...values) => process.stdout.write(JSON.stringify([line, format(...values)]) + "\\n"),
};
`;

let redis: RedisServer | undefined;
beforeAll(async () => {
  if (runtimes.some((runtime) => runtime !== "node")) install(runtimesFolder);
  if (snippets.some((snippet) => says(snippet, "REDIS_URL"))) redis = await startRedis();
  for (const folder of ["run", ...runtimes]) mkdirSync(join(CACHE, folder), { recursive: true });
  writeFileSync(join(CACHE, "run/stage.js"), STAGE);
});
afterAll(async () => {
  rmSync(CACHE, { recursive: true, force: true });
  await redis?.stop();
});

describe.each(runtimes)("blocks for %s", (runtime) => {
  const own = snippets.filter((snippet) => runtimeOf(snippet) === runtime);

  it("compile under the strictness of the project", async () => {
    const folder = join(CACHE, runtime);
    const files = own.map((snippet) => `${nameOf(snippet)}.${snippet.extension}`);
    own.forEach((snippet, i) => {
      writeFileSync(join(folder, files[i] as string), snippet.lines.join("\n"));
    });
    const config = {
      extends: join(here, "tsconfig.json"),
      compilerOptions: { checkJs: true, types: [runtime] },
      files,
      include: [],
    };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
    const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
    const run = promisify(execFile)(process.execPath, [compiler, "--pretty", "false", "-p", folder]);
    const { stdout } = await run.catch((error: { stdout: string }) => error);
    expect(stdout).toBe("");
  });

  it.each(own.map((snippet) => [`${snippet.page}:${snippet.line}`, snippet] as const))(
    "%s runs and prints what it says",
    async (where, snippet) => {
      const isServer = says(snippet, "3000");
      const port = await freePort();
      const block = await start(runtime, snippet, port);
      if (isServer) {
        await until(`${where} does not listen`, async () => (block.ended() ? undefined : reach(port)));
        if (!block.ended()) await (snippet.kind === "socket.io" ? visitSocketIo : visitWebSocket)(port);
        await until(
          `${where} does not print what it says`,
          async () => (block.ended() ? undefined : block.missing()),
          5000,
        );
        // That no error follows can't be waited for in any other way.
        await sleep(200);
      } else {
        await until(`${where} does not end`, async () => (block.ended() ? undefined : "it runs"));
      }
      expect(block.complaints(), where).toBe("");
      expect(block.ended(), where).toBe(isServer ? undefined : "exit 0");
      expect(block.missing(), where).toBeUndefined();
    },
  );
});

/** A block that runs. */
interface Running {
  /** How it ended, once it did. */
  ended(): string | undefined;
  /** What it wrote to standard error. */
  complaints(): string;
  /** What it has promised to print, and did not print. */
  missing(): string | undefined;
}

/** Starts a block, which ends with the test. */
async function start(runtime: Runtime, snippet: Snippet, port: number): Promise<Running> {
  const file = join(CACHE, "run", `${nameOf(snippet)}.${runtime === "node" ? "js" : snippet.extension}`);
  // The first line of a page is never in a block.
  const code = `import "./stage.js";${onPort(withBuilt(stagedCode(snippet)), port)}`;
  writeFileSync(file, runtime === "node" ? (await transformWithOxc(code, file.replace(/js$/, "ts"))).code : code);
  const [command = "", ...args] = COMMANDS[runtime];
  const env = { ...process.env, NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1" };
  if (redis && says(snippet, "REDIS_URL")) Object.assign(env, { REDIS_URL: redis.url });
  const child = spawn(command, [...args, file], { env, stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => stop(child));
  let printed = "";
  let complaints = "";
  child.stdout.on("data", (chunk) => (printed += chunk));
  child.stderr.on("data", (chunk) => (complaints += chunk));
  let ended: string | undefined;
  // All that it wrote is read by then.
  child.once("close", (code, signal) => (ended = `exit ${code ?? signal}`));
  return {
    ended: () => ended,
    // Deno says there that it listens.
    complaints: () => complaints.replace(/^Listening on .*\n/gm, ""),
    missing() {
      const lines = new Map(
        printed
          .split("\n")
          .filter(isOfStage)
          .map((line) => JSON.parse(line) as [number, string]),
      );
      for (const [line, promise] of promisesOf(snippet)) {
        const text = flat(lines.get(line) ?? "nothing");
        if (text !== promise) return `${snippet.page}:${line} prints ${text} and not ${promise}`;
      }
      return undefined;
    },
  };
}

/** Runtimes print of their own accord too. */
function isOfStage(line: string): boolean {
  return /^\[\d+,".*"\]$/.test(line);
}

async function stop(child: ChildProcess): Promise<void> {
  const gone = child.exitCode === null && child.signalCode === null ? once(child, "exit") : undefined;
  child.kill("SIGKILL");
  await gone;
}

/** Has a block import the built package. */
function withBuilt(code: string): string {
  const { exports } = JSON.parse(read("package.json"));
  return code.replace(/(?<=\b(?:from |import\()")sluice(\/[\w.-]+)?(?=")/g, (name, path = "") => {
    const target = exports[`.${path}`];
    if (!target) throw new Error(`there is no ${name}`);
    return join(ROOT, target.node ?? target.default);
  });
}

/** Resolves if somebody listens. */
async function reach(port: number): Promise<undefined> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.destroy();
}

/** Connects, which has to succeed, and says one thing. */
async function visitWebSocket(port: number): Promise<void> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/`);
  onTestFinished(() => socket.terminate());
  await once(socket, "open");
  socket.send(JSON.stringify({ type: "say" }));
}

/** The same with an event. */
async function visitSocketIo(port: number): Promise<void> {
  const socket = io(`http://127.0.0.1:${port}`, { forceNew: true, reconnection: false });
  onTestFinished(() => void socket.disconnect());
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("connect_error", reject);
  });
  socket.emit("say", { type: "say" });
}
