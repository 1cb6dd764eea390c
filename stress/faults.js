/**
 * Injects faults under load: Redis is killed, stopped, filled, kept busy, disconnected and failed over. No call may hang,
 * no more may be admitted than the bound, and the store has to make decisions again soon after it recovers.
 */
import { setTimeout as wait } from "node:timers/promises";
import { Cluster, Redis } from "ioredis";
import { createClient, createCluster, createSentinel } from "redis";
import { startProxy } from "../test/servers/fault-proxy.js";
import { startCluster } from "../test/servers/redis-cluster.js";
import { startSentinel } from "../test/servers/redis-sentinel.js";
import { startRedis } from "../test/servers/redis-server.js";
import { connect } from "../test/servers/resp.js";
import { boundOf, MAX_DECISION_MS, startLoad } from "./load.js";

/** The store must make decisions again within this time after it recovers. */
const MAX_RECOVERY_MS = 2000;
const quick = { retryStrategy: () => 50, autoResendUnfulfilledCommands: false };
const reconnectStrategy = () => 50;
/** The slot of the key that the load uses. */
const HOT_SLOT = slotOf("hot");

/** Faults of a single server, with the number of times that each loses the state. */
const SINGLE_SERVER_FAULTS = {
  "SCRIPT FLUSH x100": {
    losses: 0,
    async inject({ server }) {
      for (let i = 0; i < 100; i++) {
        await server.call("SCRIPT", "FLUSH");
        await wait(10);
      }
    },
  },
  "kill -9, restart x5": {
    losses: 5,
    async inject({ server }) {
      for (let i = 0; i < 5; i++) {
        await server.kill();
        await wait(300);
        await server.restart();
        await wait(1500);
      }
    },
  },
  "CLIENT PAUSE 1 s": {
    losses: 0,
    async inject({ server }) {
      await server.call("CLIENT", "PAUSE", 1000, "ALL");
      await wait(1000);
    },
  },
  "SIGSTOP 1 s": {
    losses: 0,
    async inject({ server }) {
      server.pause();
      await wait(1000);
      server.resume();
    },
  },
  "OOM 1 s": {
    losses: 0,
    async inject({ server }) {
      await server.call("CONFIG", "SET", "maxmemory", 1);
      await wait(1000);
      await server.call("CONFIG", "SET", "maxmemory", 0);
    },
  },
  "BUSY script 1 s": {
    losses: 0,
    async inject({ server }) {
      const otherClient = await connect(server.port);
      const endless = otherClient.call("EVAL", "while true do end", 0).catch(() => {});
      await wait(1000);
      await server.call("SCRIPT", "KILL");
      await endless;
      otherClient.close();
    },
  },
  "proxy: stall 1 s": { losses: 0, inject: ({ proxy }) => during(proxy, "stall") },
  "proxy: drop replies 1 s": { losses: 0, inject: ({ proxy }) => during(proxy, "drop-replies") },
  "proxy: refuse 1 s": { losses: 0, inject: ({ proxy }) => during(proxy, "refuse") },
  "proxy: 1-byte slices 1 s": { losses: 0, inject: ({ proxy }) => during(proxy, "slice") },
  "proxy: 400 ms delay 1 s": { losses: 0, inject: ({ proxy }) => during(proxy, { delayMs: 400 }) },
  "proxy: reset x10": {
    losses: 0,
    async inject({ proxy }) {
      for (let i = 0; i < 10; i++) {
        proxy.reset();
        await wait(150);
      }
    },
  },
};

async function during(proxy, mode) {
  proxy.set(mode);
  await wait(1000);
  proxy.set("pass");
}

const CLIENTS = {
  ioredis: {
    single: async (port) => withClose(new Redis(port, quick), (client) => client.disconnect()),
    cluster: async (ports) =>
      withClose(
        new Cluster(
          ports.map((port) => ({ host: "127.0.0.1", port })),
          { redisOptions: quick, clusterRetryStrategy: () => 50, slotsRefreshInterval: 200, retryDelayOnFailover: 0 },
        ),
        (client) => client.disconnect(),
      ),
    sentinel: async ({ name, sentinels }) =>
      withClose(new Redis({ name, sentinels, sentinelRetryStrategy: () => 50, ...quick }), (client) =>
        client.disconnect(),
      ),
  },
  "node-redis": {
    single: (port) => connected(createClient({ socket: { host: "127.0.0.1", port, reconnectStrategy } })),
    cluster: (ports) =>
      connected(
        createCluster({
          rootNodes: ports.map((port) => ({ socket: { host: "127.0.0.1", port } })),
          defaults: { socket: { reconnectStrategy } },
          // By default node-redis looks for the new master only after a node was unreachable for seconds.
          topologyRefreshOnReconnectionAttemptStrategy: 200,
        }),
      ),
    sentinel: ({ name, sentinels }) =>
      connected(
        createSentinel({
          name,
          sentinelRootNodes: sentinels,
          nodeClientOptions: { socket: { reconnectStrategy } },
          scanInterval: 200,
          maxCommandRediscovers: 0,
        }),
      ),
  },
};

async function connected(client) {
  client.on("error", () => {});
  await client.connect();
  return withClose(client, (client) => client.destroy());
}

function withClose(client, close) {
  client.on("error", () => {});
  return { client, close: () => close(client) };
}

/** Runs every fault on every client. `only` selects the faults whose name contains it. */
export async function* faults(/** @type {string | undefined} */ only = process.env.SLUICE_FAULT) {
  for (const [name, kind] of Object.entries(CLIENTS)) {
    for (const [fault, { losses, inject }] of Object.entries(SINGLE_SERVER_FAULTS)) {
      if (only && !fault.includes(only)) continue;
      const server = await startRedis();
      const proxy = await startProxy(server.port);
      try {
        const made = await kind.single(proxy.port);
        yield await underLoad(`${fault}, ${name}`, losses, made, () => inject({ server, proxy }), [server]);
      } finally {
        await proxy.stop();
        await server.stop();
      }
    }
    if (!only || "Cluster: master killed".includes(only)) yield await clusterFault(name, kind);
    if (!only || "Sentinel: master killed".includes(only)) yield await sentinelFault(name, kind);
  }
}

async function clusterFault(name, kind) {
  const cluster = await startCluster();
  try {
    const made = await kind.cluster(cluster.ports);
    const kill = async () => {
      const master = await cluster.masterOf(HOT_SLOT);
      await master.kill();
      // Recovered when the replica serves the slot.
      await until(async () => (await cluster.masterOf(HOT_SLOT)) !== master && (await servesHot(cluster)));
    };
    return await underLoad(`Cluster: master killed, ${name}`, 1, made, kill, cluster.nodes);
  } finally {
    await cluster.stop();
  }
}

async function servesHot(cluster) {
  const master = await cluster.masterOf(HOT_SLOT);
  const info = String(await master.call("CLUSTER", "INFO"));
  return (
    info.includes("cluster_state:ok") &&
    !(await master.call("SET", "{hot}probe", 1, "PX", 1)).toString().startsWith("MOVED")
  );
}

async function sentinelFault(name, kind) {
  const sentinel = await startSentinel();
  try {
    const made = await kind.sentinel(sentinel);
    const kill = async () => {
      const master = await sentinel.master();
      await master.kill();
      await until(async () => {
        const now = await sentinel.master();
        return now !== master && String(await now.call("ROLE")).startsWith("master");
      });
      // node-redis may take another second to find the new master. Recovery is measured from when its client works again.
      await until(() => replies(made.client));
    };
    return await underLoad(`Sentinel: master killed, ${name}`, 1, made, kill, sentinel.nodes);
  } finally {
    await sentinel.stop();
  }
}

/** Whether a client can write, outside of the limiters. */
function replies(/** @type {any} */ client) {
  return Promise.race([client.set("probe", "1").then(() => true), wait(100).then(() => false)]);
}

async function until(/** @type {() => Promise<boolean>} */ condition) {
  const end = performance.now() + 20_000;
  while (performance.now() < end) {
    if (await condition().catch(() => false)) return;
    await wait(10);
  }
  throw new Error("the servers did not recover within 20 s");
}

/** Injects one fault under load and checks the counts. */
async function underLoad(claim, losses, { client, close }, inject, servers) {
  const load = startLoad(client);
  await wait(500);
  const beforeFault = load.seen.without;
  await inject();
  const faultEndMs = load.now();
  await wait(MAX_RECOVERY_MS + 500);
  const seen = await load.stop();
  const failures = [];
  const must = (/** @type {boolean} */ holds, /** @type {string} */ text) => holds || failures.push(text);
  const bound = boundOf(seen.elapsedMs, losses);
  const recoveryMs = Math.max(0, Math.round(seen.lastWithoutMs - faultEndMs));
  must(beforeFault === 0, `${beforeFault} decisions without the store before the fault`);
  must(!seen.hung, "a promise never settled");
  must(seen.unhandled === 0, `${seen.unhandled} unhandled rejections`);
  must(seen.slowestMs <= MAX_DECISION_MS, `the slowest decision took ${Math.round(seen.slowestMs)} ms`);
  must(seen.closed <= bound, `closed: ${seen.closed} admitted, the bound is ${bound}`);
  must(seen.local <= bound, `local: the store admitted ${seen.local}, the bound is ${bound}`);
  must(
    seen.localDegraded <= boundOf(seen.elapsedMs),
    `local: the fallback admitted ${seen.localDegraded}, the bound is ${boundOf(seen.elapsedMs)}`,
  );
  must(seen.open <= bound, `open: the store admitted ${seen.open}, the bound is ${bound}`);
  must(recoveryMs <= MAX_RECOVERY_MS, `recovered only after ${recoveryMs} ms`);
  if (losses === 0) {
    const { known, ambiguous, spent = -1 } = seen;
    must(
      known <= spent && spent <= known + ambiguous,
      `${spent} charged, but ${known} calls succeeded and ${ambiguous} are ambiguous`,
    );
  }
  const persistent = await countKeysWithoutTtl(servers);
  must(persistent === 0, `${persistent} keys without a TTL`);
  await close();
  const details = [
    `${seen.decisions} decisions`,
    `slowest ${Math.round(seen.slowestMs)} ms`,
    `without the store ${seen.without}`,
    `closed ${seen.closed}/${bound}`,
    `local ${seen.local}/${bound} + ${seen.localDegraded}/${boundOf(seen.elapsedMs)}`,
    `open admitted ${seen.openDegraded} without the store`,
    `recovered after ${recoveryMs} ms`,
    ...(losses === 0 ? [`charged ${seen.spent} of ${seen.known}+${seen.ambiguous}`] : []),
  ].join(", ");
  return { claim, details, failures };
}

/** Counts the keys that never expire. */
async function countKeysWithoutTtl(servers) {
  let count = 0;
  for (const server of servers) {
    const keys = await server.call("KEYS", "s1:*").catch(() => []);
    for (const key of keys) if (Number(await server.call("PTTL", key)) === -1) count++;
  }
  return count;
}

function slotOf(/** @type {string} */ text) {
  let crc = 0;
  for (const byte of Buffer.from(text)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ (crc & 0x8000 ? 0x1021 : 0)) & 0xffff;
  }
  return crc % 16_384;
}
