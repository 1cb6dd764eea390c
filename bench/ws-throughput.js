/** The cost of the guard: messages per second with and without it, and the latency that Redis adds. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { startRedis } from "../test/servers/redis-server.js";
import { formatNumber, goal, goalTable, median, spread, table } from "./report.js";
import { ms, repeats } from "./settings.js";

export const title = "WebSockets";

const BARE = "no guard";
/** The server replies to every 64th message, or to each. */
const KINDS = ["one way", "echo"];
const CONNECTIONS = 64;
/** Pause between two measurements, for work that is left of the first. */
const REST_MS = 200;
const MANY = 1000;
const RATES = [1000, 5000];
/** Pins server and client to one processor each, if there are two and `taskset` is installed. */
const pins = cpus().length > 1 && spawnSync("taskset", ["-c", "0", "true"]).status === 0;

function start(script, cpu, env = {}) {
  const path = fileURLToPath(new URL(script, import.meta.url));
  const command = pins ? ["taskset", ["-c", cpu, process.execPath, path]] : [process.execPath, [path]];
  return spawn(...command, { stdio: ["ignore", "inherit", "inherit", "ipc"], env: { ...process.env, ...env } });
}

const nextMessage = async (child) => (await once(child, "message"))[0];

export async function run(progress) {
  const redis = await startRedis();
  const server = start("ws-servers.js", "0", { REDIS_URL: redis.url });
  const client = start("ws-client.js", "1");
  try {
    const { ports } = await nextMessage(server);
    const throughput = await measureThroughput(ports, server, client, progress);
    const waits = await measureWaits(ports.redis, server, client, progress);
    const goals = KINDS.map((kind) =>
      goal(`guard with memory to no guard, ${kind}`, throughput[`guard, memory/${kind}`].ratios, ">=", 0.9),
    );
    const tails = RATES.map((rate) =>
      goal(`p99 of the guard on Redis to p99 of PING, ${MANY} sockets, ${rate}/s`, tailsOf(waits[rate]), "<=", 2),
    );
    return [
      ...KINDS.map((kind) => reportThroughput(throughput, kind)),
      reportWaits(waits),
      goalTable([...goals, ...tails]),
    ];
  } finally {
    server.kill();
    client.kill();
    await redis.stop();
  }
}

/** Measures each guard between two runs without one, in random order, which cancels drift of the machine. */
async function measureThroughput(ports, server, client, progress) {
  const results = {};
  for (const kind of KINDS) {
    const guards = Object.keys(ports).filter((name) => name.endsWith(`/${kind}`) && name !== `${BARE}/${kind}`);
    const flood = (name) => measureFlood(ports[name], kind, server, client);
    for (const name of [`${BARE}/${kind}`, ...guards]) {
      results[name] = { perSecond: [], ratios: [], cpuUs: [], addedUs: [] };
      await flood(name);
    }
    for (let repeat = 1; repeat <= repeats; repeat++) {
      progress(`${kind}, repeat ${repeat} of ${repeats}`);
      let before = await flood(`${BARE}/${kind}`);
      for (const name of shuffled(guards)) {
        const guarded = await flood(name);
        const after = await flood(`${BARE}/${kind}`);
        addResult(results[`${BARE}/${kind}`], after, before, after);
        addResult(results[name], guarded, before, after);
        before = after;
      }
    }
  }
  return results;
}

function addResult(result, { perSecond, cpuUs }, before, after) {
  result.perSecond.push(perSecond);
  result.ratios.push((2 * perSecond) / (before.perSecond + after.perSecond));
  result.cpuUs.push(cpuUs);
  result.addedUs.push(cpuUs - (before.cpuUs + after.cpuUs) / 2);
}

async function measureFlood(port, kind, server, client) {
  await new Promise((resolve) => setTimeout(resolve, REST_MS));
  const before = await cpuOf(server);
  client.send({ how: "flood", port, connections: CONNECTIONS, ms: 3 * ms, perReply: kind === "echo" ? 1 : 64 });
  const { perSecond, all } = await nextMessage(client);
  return { perSecond, cpuUs: ((await cpuOf(server)) - before) / all };
}

async function measureWaits(port, server, client, progress) {
  const waits = Object.fromEntries(RATES.map((rate) => [rate, []]));
  for (let repeat = 0; repeat <= repeats; repeat++) {
    for (const rate of RATES) {
      progress(`Redis, ${rate}/s, ${repeat === 0 ? "warm-up" : `repeat ${repeat} of ${repeats}`}`);
      client.send({ how: "trickle", port, connections: MANY, ms: 10 * ms, perSecond: rate });
      await nextMessage(client);
      server.send("start");
      const { sent } = await nextMessage(client);
      server.send("stop");
      const { guarded, pings } = await nextMessage(server);
      if (guarded.length < sent * 0.99) throw new Error(`${guarded.length} of ${sent} messages were handled`);
      if (repeat > 0) waits[rate].push({ guarded: quantiles(guarded), pings: quantiles(pings) });
    }
  }
  return waits;
}

function shuffled(list) {
  return list
    .map((one) => [Math.random(), one])
    .sort(([a], [b]) => a - b)
    .map(([, one]) => one);
}

async function cpuOf(server) {
  server.send("cpu");
  return (await nextMessage(server)).cpuUs;
}

function quantiles(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
  return { p50: at(0.5), p99: at(0.99) };
}

const tailsOf = (waits) => waits.map(({ guarded, pings }) => guarded.p99 / pings.p99);

function reportThroughput(results, kind) {
  const rows = Object.keys(results)
    .filter((name) => name.endsWith(`/${kind}`))
    .map((name) => {
      const { perSecond, ratios, cpuUs, addedUs } = results[name];
      const [variant] = name.split("/");
      const added = variant === BARE ? `(${formatNumber(median(cpuUs))})` : spread(addedUs);
      return [variant, spread(perSecond), spread(ratios), added];
    });
  return table([`ws, ${CONNECTIONS} connections, ${kind}`, "messages/s", "to no guard", "added CPU us"], rows);
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
