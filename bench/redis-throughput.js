/** Measures decisions on Redis: throughput and latency under load, server time, bytes, and cached denials. */
import { startRedis } from "../test/servers/redis-server.js";
import { measureInChild } from "./measure-in-child.js";
import { AMPLE, contenders, peers, SPENT } from "./redis-contenders.js";
import { formatNumber, goal, goalTable, median, ratios, spread, table } from "./report.js";
import { ms, repeats } from "./settings.js";

export const title = "Redis";

const KEYS = 10_000;
/** Closed loops: the number of calls in flight. */
const CLOSED = [1, 64, 512];
/** Open loops: calls per second, regardless of earlier calls. */
const OPEN = [5000, 30_000];
const SLUICE = ["sluice-ioredis", "sluice-node-redis"];
/** Warm up until the code is compiled: a server runs for days. */
const WARM_UP_MS = Math.max(1500, ms);

const keyOf = (i) => `user:${String(i % KEYS).padStart(10, "0")}`;

export async function run(progress) {
  const server = await startRedis();
  try {
    const results = Object.fromEntries(Object.keys(contenders).map((name) => [name, {}]));
    const loads = [...CLOSED.map((inFlight) => ({ inFlight })), ...OPEN.map((perSecond) => ({ perSecond }))];
    for (const load of loads) {
      const label = load.inFlight ? `N=${load.inFlight}` : `${load.perSecond / 1000}k/s`;
      for (const name of Object.keys(contenders)) results[name][label] = [];
      for (let repeat = 1; repeat <= repeats; repeat++) {
        progress(`${label}, repeat ${repeat} of ${repeats}`);
        for (const name of Object.keys(contenders)) {
          await server.call("FLUSHALL");
          results[name][label].push(await measureInChild("redis-throughput", { name, port: server.port, ...load }));
        }
      }
    }
    progress("bytes and denials");
    const bytes = {};
    for (const name of Object.keys(contenders)) {
      await server.call("FLUSHALL");
      bytes[name] = await measureInChild("redis-throughput", { name, port: server.port, bytes: true });
    }
    const denied = [];
    for (let repeat = 1; repeat <= repeats; repeat++) {
      denied.push(
        await measureInChild("redis-throughput", { name: "sluice-ioredis", port: server.port, denied: true }),
      );
    }
    return report(results, bytes, denied);
  } finally {
    await server.stop();
  }
}

const valuesOf = (results, name, load, field) => results[name][load].map((run) => run[field]);

function report(results, bytes, denied) {
  const names = Object.keys(contenders);
  const closed = table(
    ["calls in flight", ...CLOSED.flatMap((n) => [`N=${n}, k/s`, "p50 / p99 ms"]), "server us", "MEMORY USAGE"],
    names.map((name) => [
      contenders[name].label,
      ...CLOSED.flatMap((n) => {
        const [speeds, p50, p99] = ["perMs", "p50", "p99"].map((field) => valuesOf(results, name, `N=${n}`, field));
        return [spread(speeds), `${formatNumber(median(p50))} / ${formatNumber(median(p99))}`];
      }),
      formatNumber(median(valuesOf(results, name, "N=64", "serverUs"))),
      bytes[name] ?? "-",
    ]),
  );
  const open = table(
    ["calls per second", ...OPEN.flatMap((n) => [`${n / 1000} k/s: done, k/s`, "p50 / p99 ms"])],
    names.map((name) => [
      contenders[name].label,
      ...OPEN.flatMap((n) => {
        const [speeds, p50, p99] = ["perMs", "p50", "p99"].map((field) =>
          valuesOf(results, name, `${n / 1000}k/s`, field),
        );
        return [formatNumber(median(speeds)), `${formatNumber(median(p50))} / ${formatNumber(median(p99))}`];
      }),
    ]),
  );
  return [closed, open, goalTable(goals(results, bytes, denied))];
}

function goals(results, bytes, denied) {
  const rows = [];
  for (const name of SLUICE) {
    const { label, client } = contenders[name];
    // Compare on the same client: its overhead is in both.
    const rivals = peers.filter((peer) => contenders[peer].client === client);
    const best = (load, field, sign) =>
      rivals.toSorted(
        (a, b) => sign * (median(valuesOf(results, a, load, field)) - median(valuesOf(results, b, load, field))),
      )[0];
    for (const [n, bound] of [
      [64, 2],
      [512, 1.8],
    ]) {
      const load = `N=${n}`;
      const fastest = best(load, "perMs", -1);
      const speed = ratios(valuesOf(results, name, load, "perMs"), valuesOf(results, fastest, load, "perMs"));
      rows.push(goal(`N=${n}: ${label} / best peer (${fastest})`, speed, ">=", bound, "x"));
      const lowestP99 = best(load, "p99", 1);
      const p99 = ratios(valuesOf(results, name, load, "p99"), valuesOf(results, lowestP99, load, "p99"));
      rows.push(goal(`N=${n}: p99 of ${label} / lowest peer (${lowestP99})`, p99, "<=", 1, "x"));
    }
    for (const n of OPEN) {
      const load = `${n / 1000}k/s`;
      const lowestP50 = best(load, "p50", 1);
      const p50 = ratios(valuesOf(results, name, load, "p50"), valuesOf(results, lowestP50, load, "p50"));
      rows.push(goal(`${load}: p50 of ${label} / lowest peer (${lowestP50})`, p50, "<=", 1, "x"));
    }
    rows.push(goal(`N=64: server CPU of ${label}`, valuesOf(results, name, "N=64", "serverUs"), "<=", 6, " us"));
  }
  const smallest = Math.min(...peers.map((name) => bytes[name]));
  rows.push(goal("MEMORY USAGE of a token bucket, 15-character key", [bytes["sluice-ioredis"]], "<=", 72, " B"));
  rows.push(goal("MEMORY USAGE / smallest peer", [bytes["sluice-ioredis"] / smallest], "<=", 1, "x"));
  rows.push(goal("cached denials, million/s", denied, ">=", 5));
  return rows;
}

/** Measures one contender under one load. Latencies are in ms. */
export async function measure({ name, port, inFlight, perSecond, bytes, denied }) {
  const { hit, close } = await contenders[name].make(port, denied ? SPENT : AMPLE);
  try {
    if (bytes) return await memoryUsage(hit, port);
    if (denied) return await deniedSpeed(hit);
    const load = inFlight ? (forMs) => closedLoop(hit, inFlight, forMs) : (forMs) => openLoop(hit, perSecond, forMs);
    await load(WARM_UP_MS);
    const before = await serverSeconds(port);
    const { latencies, elapsed } = await load(2 * ms);
    const serverUs = ((await serverSeconds(port)) - before) * (1e6 / latencies.length);
    latencies.sort();
    const at = (part) => latencies[Math.floor(latencies.length * part)];
    return { perMs: latencies.length / elapsed, p50: at(0.5), p99: at(0.99), serverUs };
  } finally {
    close();
  }
}

async function closedLoop(hit, inFlight, forMs) {
  const latencies = [];
  const start = performance.now();
  let i = 0;
  const caller = async () => {
    for (let now = performance.now(); now - start < forMs; ) {
      await hit(keyOf(i++));
      const done = performance.now();
      latencies.push(done - now);
      now = done;
    }
  };
  await Promise.all(Array.from({ length: inFlight }, caller));
  return { latencies: Float64Array.from(latencies), elapsed: performance.now() - start };
}

/** Latency is measured from the scheduled time: a slow contender must not hide the delay of later calls. */
async function openLoop(hit, perSecond, forMs) {
  const latencies = [];
  const start = performance.now();
  const calls = [];
  for (let i = 0; ; ) {
    const now = performance.now() - start;
    if (now >= forMs) break;
    for (; (i * 1000) / perSecond <= now; i++) {
      const due = start + (i * 1000) / perSecond;
      calls.push(hit(keyOf(i * 7919)).then(() => latencies.push(performance.now() - due)));
    }
    await new Promise(setImmediate);
  }
  await Promise.all(calls);
  return { latencies: Float64Array.from(latencies), elapsed: performance.now() - start };
}

async function onServer(port, ...args) {
  const { connect } = await import("../test/servers/resp.js");
  const connection = await connect(port);
  const reply = await connection.call(...args);
  connection.close();
  return reply;
}

async function serverSeconds(port) {
  const info = String(await onServer(port, "INFO", "cpu"));
  const field = (name) => Number(new RegExp(`${name}:([\\d.]+)`).exec(info)?.[1]);
  return field("used_cpu_user") + field("used_cpu_sys");
}

async function memoryUsage(hit, port) {
  await onServer(port, "FLUSHALL");
  await hit("123456789012345");
  const keys = await onServer(port, "KEYS", "*123456789012345*");
  return keys.length === 1 ? Number(await onServer(port, "MEMORY", "USAGE", keys[0])) : null;
}

/** Million sequential decisions per second of a key whose denial is cached. */
async function deniedSpeed(hit) {
  await hit("k");
  await hit("k");
  let speed = 0;
  for (const pass of ["warm-up", "measured"]) {
    const start = performance.now();
    let count = 0;
    // Includes one call to the store per second, when the cached denial expires.
    while (performance.now() - start < 2 * ms) {
      for (let i = 0; i < 1000; i++) globalThis.result = await hit("k");
      count += 1000;
    }
    speed = count / (performance.now() - start) / 1000;
    if (globalThis.result.allowed) throw new Error(`not denied in ${pass}`);
  }
  return speed;
}
