/** Measures requests per second of web servers without a limiter, with sluice and with another limiter. */
import { execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { formatNumber, goal, goalTable, median, ratios, spread, table } from "./report.js";
import { repeats } from "./settings.js";

export const title = "Web servers";

const FRAMEWORKS = { express: "express-rate-limit", fastify: "@fastify/rate-limit", hono: "hono-rate-limiter" };
const CONNECTIONS = 64;
/** Duration of a burst in seconds, the minimum of wrk. */
const SECONDS = 1;
/** Pin server and client to one CPU each, if there are two CPUs and `taskset`. */
const canPin = cpus().length > 1 && spawnSync("taskset", ["-c", "0", "true"]).status === 0;
const pinned = (cpu, command, args) => (canPin ? ["taskset", ["-c", cpu, command, ...args]] : [command, args]);

export async function run(progress) {
  const tables = [];
  const goals = [];
  for (const framework of Object.keys(FRAMEWORKS)) {
    const results = await measureFramework(framework, progress);
    tables.push(report(framework, results));
    goals.push(...goalsOf(framework, results));
  }
  return [...tables, goalTable(goals)];
}

/** Measures the variants in alternating bursts in one process: load on the machine affects all of them. */
export async function measureFramework(framework, progress) {
  const script = fileURLToPath(new URL("http-servers.js", import.meta.url));
  const stdio = ["ignore", "inherit", "inherit", "ipc"];
  const server = spawn(...pinned("0", process.execPath, [script, framework]), { stdio });
  try {
    const [{ ports }] = await once(server, "message");
    const results = Object.fromEntries(Object.keys(ports).map((name) => [name, []]));
    for (let repeat = 0; repeat <= repeats; repeat++) {
      progress(`${framework}, ${repeat === 0 ? "warm-up" : `repeat ${repeat} of ${repeats}`}`);
      // Rotate the order: the first burst of a round must not always be the same variant's.
      const all = Object.entries(ports);
      for (const [name, port] of [...all.slice(repeat % all.length), ...all.slice(0, repeat % all.length)]) {
        const before = await cpuOf(server);
        const burst = await runBurst(port);
        const cpuUs = ((await cpuOf(server)) - before) / burst.requests;
        check(framework, name, burst);
        if (repeat > 0) results[name].push({ perSecond: burst.perSecond, cpuUs });
      }
    }
    return results;
  } finally {
    server.kill();
  }
}

async function cpuOf(server) {
  server.send("cpu");
  const [{ cpuUs }] = await once(server, "message");
  return cpuUs;
}

async function runBurst(port) {
  const args = ["-t1", `-c${CONNECTIONS}`, `-d${SECONDS}s`, `http://127.0.0.1:${port}/`];
  const { stdout } = await promisify(execFile)(...pinned("1", "wrk", args)).catch((error) => {
    const missing = error.code === "ENOENT" || error.code === 127;
    throw missing ? new Error("wrk is not installed. Run apt-get install wrk.") : error;
  });
  const requests = Number(/(\d+) requests in/.exec(stdout)[1]);
  const perSecond = Number(/Requests\/sec: +([\d.]+)/.exec(stdout)[1]);
  return { requests, perSecond, rejected: Number(/Non-2xx or 3xx responses: (\d+)/.exec(stdout)?.[1] ?? 0) };
}

/** Checks that the limiter rejects all requests or none: a broken limiter would be fast. */
function check(framework, name, { requests, rejected }) {
  const isCorrect = name.endsWith(", denied") ? requests - rejected <= 1 : rejected === 0;
  if (!isCorrect) throw new Error(`${framework}, ${name}: ${rejected} of ${requests} requests were rejected`);
}

const rates = (results, name) => results[name].map(({ perSecond }) => perSecond);

function report(framework, results) {
  const base = rates(results, "no limiter");
  const baseCpu = results["no limiter"].map(({ cpuUs }) => cpuUs);
  const rows = Object.keys(results).map((name) => {
    const cpu = results[name].map(({ cpuUs }, i) => cpuUs - baseCpu[i]);
    const added = name === "no limiter" ? `(${formatNumber(median(baseCpu))})` : spread(cpu);
    const toBase = spread(ratios(rates(results, name), base));
    const toNothing = spread(ratios(rates(results, name), rates(results, "does nothing")));
    return [name, spread(rates(results, name)), toBase, toNothing, added];
  });
  return table([framework, "requests/s", "to no limiter", "to does nothing", "added CPU us"], rows);
}

function goalsOf(framework, results) {
  const peer = FRAMEWORKS[framework];
  const toBase = (name) => ratios(rates(results, name), rates(results, "no limiter"));
  const toPeer = (name, other) => ratios(rates(results, name), rates(results, other));
  const bare = [`${framework}, no headers`, toBase("sluice, no headers"), ">=", 0.95];
  const denied = [`${framework}, denied, to ${peer}`, toPeer("sluice, denied", `${peer}, denied`), ">=", 1.3];
  if (framework === "express")
    return [goal("express, draft-8", toBase("sluice, draft-8"), ">=", 0.93), goal(...denied)];
  if (framework === "fastify") {
    return [goal("fastify, draft-8", toBase("sluice, draft-8"), ">=", 0.75), goal(...bare), goal(...denied)];
  }
  return [goal(`hono, draft-8, to ${peer}`, toPeer("sluice, draft-8", peer), ">=", 1), goal(...bare)];
}
