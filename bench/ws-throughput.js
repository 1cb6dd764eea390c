/** What the guard costs a WebSocket server: messages a second with and without it, and how long Redis makes one wait. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { startRedis } from "../test/servers/redis-server.js";
import { figure, goal, goalTable, median, ratios, spread, table } from "./report.js";
import { ms, repeats } from "./settings.js";

export const title = "WebSockets";

const CONNECTIONS = 64;
const MANY = 1000;
const RATES = [1000, 5000];
/** Server and client keep to a processor each, where there are two and `taskset` is there. */
const pins = cpus().length > 1 && spawnSync("taskset", ["-c", "0", "true"]).status === 0;

function start(script, cpu, env = {}) {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const command = pins ? ["taskset", ["-c", cpu, process.execPath, path]] : [process.execPath, [path]];
  return spawn(...command, { stdio: ["ignore", "inherit", "inherit", "ipc"], env: { ...process.env, ...env } });
}

const told = async (child) => (await once(child, "message"))[0];

export async function run(progress) {
  const redis = await startRedis();
  const server = start("ws-servers.js", "0", { REDIS_URL: redis.url });
  const client = start("ws-client.js", "1");
  try {
    const { ports } = await told(server);
    const throughput = await measureThroughput(ports, client, progress);
    const waits = await measureWaits(ports.redis, server, client, progress);
    const goals = ["one way", "echo"].map((kind) =>
      goal(`guard with memory to no guard, ${kind}`, ratioOf(throughput, "guard, memory", kind), ">=", 0.9),
    );
    const tails = RATES.map((rate) =>
      goal(`p99 of the guard on Redis to p99 of PING, ${MANY} sockets, ${rate}/s`, tailsOf(waits[rate]), "<=", 2),
    );
    return [
      ...["one way", "echo"].map((kind) => reportThroughput(throughput, kind)),
      reportWaits(waits),
      goalTable([...goals, ...tails]),
    ];
  } finally {
    server.kill();
    client.kill();
    await redis.stop();
  }
}

/** Rounds over all variants, so that the machine's mood is in all; each begins with another one. */
async function measureThroughput(ports, client, progress) {
  const { redis: _, ...variants } = ports;
  const results = Object.fromEntries(Object.keys(variants).map((name) => [name, []]));
  for (let repeat = 0; repeat <= repeats; repeat++) {
    progress(repeat === 0 ? "warm-up" : `repeat ${repeat} of ${repeats}`);
    const all = Object.entries(variants);
    const first = (2 * repeat) % all.length;
    for (const [name, port] of [...all.slice(first), ...all.slice(0, first)]) {
      client.send({ how: "flood", port, connections: CONNECTIONS, ms, perAnswer: name.endsWith("echo") ? 1 : 64 });
      const { perSecond } = await told(client);
      if (repeat > 0) results[name].push(perSecond);
    }
  }
  return results;
}

async function measureWaits(port, server, client, progress) {
  const waits = Object.fromEntries(RATES.map((rate) => [rate, []]));
  for (let repeat = 0; repeat <= repeats; repeat++) {
    for (const rate of RATES) {
      progress(`Redis, ${rate}/s, ${repeat === 0 ? "warm-up" : `repeat ${repeat} of ${repeats}`}`);
      client.send({ how: "trickle", port, connections: MANY, ms: 10 * ms, perSecond: rate });
      await told(client);
      server.send("start");
      const { sent } = await told(client);
      server.send("stop");
      const { guarded, pings } = await told(server);
      if (guarded.length < sent * 0.99) throw new Error(`${guarded.length} of ${sent} messages were handled`);
      if (repeat > 0) waits[rate].push({ guarded: quantiles(guarded), pings: quantiles(pings) });
    }
  }
  return waits;
}

function quantiles(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  return { p50: at(0.5), p99: at(0.99) };
}

const ratioOf = (results, name, kind) => ratios(results[`${name}/${kind}`], results[`no guard/${kind}`]);
const tailsOf = (waits) => waits.map(({ guarded, pings }) => guarded.p99 / pings.p99);

function reportThroughput(results, kind) {
  const names = Object.keys(results).filter((name) => name.endsWith(`/${kind}`));
  const rows = names.map((name) => {
    const perMessage = median(results[name].map((rate, i) => 1e6 / rate - 1e6 / results[`no guard/${kind}`][i]));
    const [variant] = name.split("/");
    return [variant, spread(results[name]), spread(ratioOf(results, variant, kind)), figure(perMessage)];
  });
  return table([`ws, ${CONNECTIONS} connections, ${kind}`, "messages/s", "to no guard", "added us"], rows);
}

function reportWaits(waits) {
  const rows = RATES.flatMap((rate) =>
    ["guarded", "pings"].map((what) => [
      `${what === "pings" ? "PING on the same connection" : "the guard"}, ${rate}/s`,
      spread(waits[rate].map((wait) => wait[what].p50)),
      spread(waits[rate].map((wait) => wait[what].p99)),
    ]),
  );
  return table([`Redis, ${MANY} sockets`, "p50 ms", "p99 ms"], rows);
}
