/** A Redis master with a replica and three sentinels with a quorum of two. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { startRedis } from "./redis-server.js";
import { notFollowing } from "./replication.js";
import { startProcess } from "./server-process.js";
import { startAll } from "./start-all.js";
import { until } from "./until.js";

/** @typedef {import("./redis-server.js").RedisServer} RedisServer */
/** @typedef {Awaited<ReturnType<typeof startSentinel>>} RedisSentinel */

const NAME = "main";

// By default sentinels send INFO every ten seconds and publish every two. Much shorter periods break failover: replica
// data expires after three INFO-PERIODs, but INFO is sent only once a second during a failover; and a node that claims to
// be master is reset after four PUBLISH-PERIODs, within which the leader must detect its promotion.
const PERIODS = ["INFO-PERIOD", 500, "PUBLISH-PERIOD", 500, "TILT-PERIOD", 1000];
const HASTE = ["INFO-PERIOD", 100, "PUBLISH-PERIOD", 100];

/** Starts five servers and resolves when the sentinels have found the master, the replica and one another. */
export async function startSentinel({ downAfterMs = 1000, failoverTimeoutMs = 3000 } = {}) {
  const args = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
  const first = await startRedis({ args });
  /** @type {RedisServer[]} */
  const servers = [first];
  const stop = async () => {
    await Promise.all(servers.map((server) => server.stop()));
  };
  const conf = [
    `sentinel monitor ${NAME} 127.0.0.1 ${first.port} 2`,
    `sentinel down-after-milliseconds ${NAME} ${downAfterMs}`,
    `sentinel failover-timeout ${NAME} ${failoverTimeoutMs}`,
  ];
  try {
    const second = () => startRedis({ args: [...args, "--replicaof", "127.0.0.1", `${first.port}`] });
    const watcher = () => startWatcher(conf);
    servers.push(...(await startAll([second, watcher, watcher, watcher])));
    await waitUntilStable(servers, HASTE);
  } catch (error) {
    await stop();
    throw error;
  }

  const nodes = servers.slice(0, 2);
  const watchers = servers.slice(2);
  const master = () => masterOf(nodes, watchers);
  return {
    name: NAME,
    nodes,
    /** The servers of `sentinels`, to kill and pause. */
    watchers,
    sentinels: watchers.map(({ port }) => ({ host: "127.0.0.1", port })),
    /** The current master according to the sentinels. */
    master,
    /** Waits until the running sentinels agree on a master and see the replica and one another. */
    settled: () => waitUntilStable(servers),
    /** Fails over to the replica and resolves with it when all sentinels have switched. */
    async failover() {
      const before = await master();
      let again = 0;
      await until("the sentinels did not fail over", async () => {
        const ports = await portsSeen(watchers);
        if (performance.now() > again && ports.every((port) => port === before.port)) {
          // Rejected shortly after the start and after the last failover, and aborted if it takes too long.
          await alive(watchers)[0]?.call("SENTINEL", "FAILOVER", NAME);
          again = performance.now() + failoverTimeoutMs + 1000;
        }
        if (new Set(ports).size > 1 || ports[0] === before.port) return `they name ${ports}`;
        const [role] = /** @type {string[]} */ (await (await master()).call("ROLE"));
        return role === "master" ? undefined : `the new master is a ${role}`;
      });
      return master();
    },
    stop,
  };
}

/** Every sentinel has its own configuration file, because it writes its state into it. */
function startWatcher(/** @type {string[]} */ conf) {
  const file = (/** @type {string} */ dir) => join(dir, "sentinel.conf");
  return startProcess({
    prepare(port, dir) {
      const lines = [`port ${port}`, "bind 127.0.0.1", "protected-mode no", `dir "${dir}"`, ...conf];
      writeFileSync(file(dir), `${lines.join("\n")}\n`);
    },
    args: (_port, dir) => [file(dir), "--sentinel"],
  });
}

const alive = (/** @type {RedisServer[]} */ servers) => servers.filter((server) => server.running);

/** The port of the master according to a sentinel. */
async function portSeen(/** @type {RedisServer} */ watcher) {
  const address = await watcher.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME);
  return Number(/** @type {string[]} */ (address)[1]);
}

const portsSeen = (/** @type {RedisServer[]} */ watchers) => Promise.all(alive(watchers).map(portSeen));

async function masterOf(/** @type {RedisServer[]} */ nodes, /** @type {RedisServer[]} */ watchers) {
  const port = await Promise.any(alive(watchers).map(portSeen)).catch((cause) => {
    throw new Error("No sentinel replies.", { cause });
  });
  const node = nodes.find((node) => node.port === port);
  if (!node) throw new Error(`The sentinels report port ${port}, which is not one of the nodes.`);
  return node;
}

async function waitUntilStable(
  /** @type {RedisServer[]} */ servers,
  /** @type {(string | number)[]} */ extraPeriods = [],
) {
  const watchers = servers.slice(2);
  const setPeriods = (/** @type {(string | number)[]} */ ...periods) =>
    Promise.all(alive(watchers).map((watcher) => watcher.call("SENTINEL", "DEBUG", ...periods)));
  await setPeriods(...PERIODS, ...extraPeriods);
  await until("the sentinels did not settle", () => instability(servers.slice(0, 2), watchers));
  if (extraPeriods.length > 0) await setPeriods(...PERIODS);
}

/** The reason why the servers are not stable, or undefined. */
async function instability(/** @type {RedisServer[]} */ nodes, /** @type {RedisServer[]} */ watchers) {
  const ports = await portsSeen(watchers);
  if (ports.length < 2) return `${ports.length} sentinels run`;
  if (new Set(ports).size > 1) return `the sentinels report ${ports} as master`;
  const master = await masterOf(nodes, watchers);
  if (!master.running) return `the sentinels report ${master.port} as master, which is not running`;
  const replicas = alive(nodes).filter((node) => node !== master);
  if (`${/** @type {string[]} */ (await master.call("ROLE"))[0]}` !== "master")
    return `port ${master.port} is not a master`;
  for (const replica of replicas) {
    const reason = await notFollowing(replica, master);
    if (reason) return reason;
  }
  for (const watcher of alive(watchers)) {
    const others = await countHealthy(watcher, "SENTINELS");
    if (others < ports.length - 1) return `the sentinel on port ${watcher.port} sees ${others} others`;
    const seen = await countHealthy(watcher, "REPLICAS");
    if (seen !== replicas.length) return `the sentinel on port ${watcher.port} sees ${seen} replicas`;
  }
  return undefined;
}

/** The number of peers or replicas that a sentinel considers healthy. */
async function countHealthy(/** @type {RedisServer} */ watcher, /** @type {"SENTINELS" | "REPLICAS"} */ kind) {
  const list = /** @type {string[][]} */ (await watcher.call("SENTINEL", kind, NAME));
  return list.filter((fields) => {
    const field = (/** @type {string} */ name) => fields[fields.indexOf(name) + 1];
    if (/s_down|o_down|disconnected/.test(`${field("flags")}`)) return false;
    return kind === "SENTINELS" || field("master-link-status") === "ok";
  }).length;
}
