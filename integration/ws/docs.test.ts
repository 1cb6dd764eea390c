/**
 * Compiles and runs the documentation snippets that `npm test` can't run, with the types of their runtime and the built
 * package. A snippet with port 3000 is a server, which gets one message of type "say"; any other must exit by itself.
 * Snippets must print what their comments say, as in test/docs.test.ts.
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
/** Ignored by git, and in this folder, whose packages the snippets import. */
const CACHE = join(here, ".cache", `docs-${process.pid}`);
const installed = (path: string) => join(runtimesFolder, "node_modules", path);

/** The command that runs a file. The types of a runtime have its name. */
const COMMANDS = {
  node: [process.execPath],
  bun: [installed("@oven/bun-linux-x64/bin/bun")],
  deno: [installed("@deno/linux-x64-glibc/deno"), "run", "-A", "--no-lock", "--node-modules-dir=manual"],
};
type Runtime = keyof typeof COMMANDS;

const snippets = snippetsOfKind("bun", "deno", "socket.io", "ws-kit");
const runtimes = [...new Set(snippets.map(runtimeOf))];

/** ws-kit snippets run on Bun if they use it, and otherwise on Node.js. */
function runtimeOf(snippet: Snippet): Runtime {
  const { kind } = snippet;
  if (kind === "bun" || kind === "deno") return kind;
  return says(snippet, "Bun.") ? "bun" : "node";
}

/** Prints each `console.log` of a snippet as one line of JSON. */
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

describe.each(runtimes)("snippets for %s", (runtime) => {
  const own = snippets.filter((snippet) => runtimeOf(snippet) === runtime);

  it("compile with the project's compiler options", async () => {
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
    "%s runs and prints the expected lines",
    async (where, snippet) => {
      const isServer = says(snippet, "3000");
      const port = await freePort();
      const running = await start(runtime, snippet, port);
      if (isServer) {
        await until(`${where} does not listen`, async () => (running.ended() ? undefined : reach(port)));
        if (!running.ended()) await (snippet.kind === "socket.io" ? visitSocketIo : visitWebSocket)(port);
        await until(
          `${where} does not print what it says`,
          async () => (running.ended() ? undefined : running.missing()),
          5000,
        );
        // There is no event to wait for if no error follows.
        await sleep(200);
      } else {
        await until(`${where} does not end`, async () => (running.ended() ? undefined : "it runs"));
      }
      expect(running.stderr(), where).toBe("");
      expect(running.ended(), where).toBe(isServer ? undefined : "exit 0");
      expect(running.missing(), where).toBeUndefined();
    },
  );
});

/** A running snippet. */
interface Running {
  /** The exit code or signal, once it has exited. */
  ended(): string | undefined;
  /** The output on standard error. */
  stderr(): string;
  /** The first expected line that it has not printed. */
  missing(): string | undefined;
}

/** Starts a snippet that is stopped at the end of the test. */
async function start(runtime: Runtime, snippet: Snippet, port: number): Promise<Running> {
  const file = join(CACHE, "run", `${nameOf(snippet)}.${runtime === "node" ? "js" : snippet.extension}`);
  // One line, because the first line of a page is never in a snippet and line numbers must stay.
  const code = `import "./stage.js";${onPort(withBuilt(stagedCode(snippet)), port)}`;
  writeFileSync(file, runtime === "node" ? (await transformWithOxc(code, file.replace(/js$/, "ts"))).code : code);
  const [command = "", ...args] = COMMANDS[runtime];
  const env = { ...process.env, NO_COLOR: "1", DENO_NO_UPDATE_CHECK: "1" };
  if (redis && says(snippet, "REDIS_URL")) Object.assign(env, { REDIS_URL: redis.url });
  const child = spawn(command, [...args, file], { env, stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => stop(child));
  let printed = "";
  let stderr = "";
  child.stdout.on("data", (chunk) => (printed += chunk));
  child.stderr.on("data", (chunk) => (stderr += chunk));
  let ended: string | undefined;
  // Emitted after the output has been read.
  child.once("close", (code, signal) => (ended = `exit ${code ?? signal}`));
  return {
    ended: () => ended,
    // Deno prints there that it is listening.
    stderr: () => stderr.replace(/^Listening on .*\n/gm, ""),
    missing() {
      const lines = new Map(
        printed
          .split("\n")
          .filter(isOfStage)
          .map((line) => JSON.parse(line) as [number, string]),
      );
      for (const [line, promise] of promisesOf(snippet)) {
        const text = flat(lines.get(line) ?? "nothing");
        if (text !== promise) return `${snippet.page}:${line} prints ${text} instead of ${promise}`;
      }
      return undefined;
    },
  };
}

/** Whether a line is from `stage.log`. Runtimes print lines of their own. */
function isOfStage(line: string): boolean {
  return /^\[\d+,".*"\]$/.test(line);
}

async function stop(child: ChildProcess): Promise<void> {
  const gone = child.exitCode === null && child.signalCode === null ? once(child, "exit") : undefined;
  child.kill("SIGKILL");
  await gone;
}

/** Makes a snippet import the built package. */
function withBuilt(code: string): string {
  const { exports } = JSON.parse(read("package.json"));
  return code.replace(/(?<=\b(?:from |import\()")sluice(\/[\w.-]+)?(?=")/g, (name, path = "") => {
    const target = exports[`.${path}`]?.import;
    if (!target) throw new Error(`there is no ${name}`);
    return join(ROOT, target.node ?? target.default);
  });
}

/** Resolves if a server is listening. */
async function reach(port: number): Promise<undefined> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.destroy();
}

/** Connects and sends one message. */
async function visitWebSocket(port: number): Promise<void> {
  const socket = new WebSocket(`ws://127.0.0.1:${port}/`);
  onTestFinished(() => socket.terminate());
  await once(socket, "open");
  socket.send(JSON.stringify({ type: "say" }));
}

/** Connects over Socket.IO and sends one event. */
async function visitSocketIo(port: number): Promise<void> {
  const socket = io(`http://127.0.0.1:${port}`, { forceNew: true, reconnection: false });
  onTestFinished(() => void socket.disconnect());
  await new Promise<void>((resolve, reject) => {
    socket.once("connect", resolve);
    socket.once("connect_error", reject);
  });
  socket.emit("say", { type: "say" });
}
