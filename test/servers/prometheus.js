/** Starts a Prometheus on loopback, and calls promtool. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ensurePrometheus } from "./ensure-prometheus.js";
import { freePort } from "./free-port.js";
import { reap, reaped, temporaryDir } from "./reaper.js";
import { until } from "./until.js";

const MAX_LOG_CHARS = 4000;

/** @typedef {{ readonly metric: Readonly<Record<string, string>>, readonly value: number }} Sample */
/** @typedef {Awaited<ReturnType<typeof startPrometheus>>} Prometheus */

/** Starts Prometheus with a prometheus.yml as text, and resolves when it is ready. It ends with this process at the latest. */
export async function startPrometheus(/** @type {string} */ config) {
  await ensurePrometheus();
  const dir = temporaryDir();
  const file = join(dir, "prometheus.yml");
  writeFileSync(file, config);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const args = [`--config.file=${file}`, `--storage.tsdb.path=${dir}/data`, `--web.listen-address=127.0.0.1:${port}`];
  const child = spawn("prometheus", [...args, "--log.level=warn"], { stdio: ["ignore", "pipe", "pipe"] });
  const pid = child.pid ?? 0;
  reap(pid);
  const exited = once(child, "exit").then(() => reaped(pid));
  let log = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => (log = (log + chunk).slice(-MAX_LOG_CHARS)));
  }
  const stop = async () => {
    child.kill();
    await exited;
    rmSync(dir, { recursive: true, force: true });
  };
  const get = async (/** @type {string} */ path) => {
    const response = await fetch(`${url}${path}`);
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response;
  };
  try {
    await until("Prometheus did not start", async () => {
      if (child.exitCode !== null) return `it ended with ${child.exitCode}: ${log}`;
      await get("/-/ready");
      return undefined;
    });
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    url,
    /** Evaluates an expression now. @returns {Promise<Sample[]>} */
    async query(/** @type {string} */ expr) {
      const { data } = await (await get(`/api/v1/query?query=${encodeURIComponent(expr)}`)).json();
      return data.result.map((/** @type {{ metric: Record<string, string>, value: [number, string] }} */ one) => ({
        metric: one.metric,
        value: Number(one.value[1]),
      }));
    },
    /** Reads an endpoint of the HTTP API, such as "rules". */
    async read(/** @type {string} */ endpoint) {
      return (await (await get(`/api/v1/${endpoint}`)).json()).data;
    },
    stop,
  };
}

/** Calls promtool with some input, and returns everything that it printed. Rejects if it fails. */
export async function promtool(/** @type {string[]} */ args, input = "") {
  await ensurePrometheus();
  const child = spawn("promtool", args, { stdio: ["pipe", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  child.stdin.end(input);
  const [status] = await once(child, "close");
  if (status !== 0) throw new Error(`promtool ${args.join(" ")} ended with ${status}: ${output}`);
  return output;
}
