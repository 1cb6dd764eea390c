/** A Redis Cluster: three masters, each with a replica. */
import { startRedis } from "./redis-server.js";
import { notFollowing } from "./replication.js";
import { connect } from "./resp.js";
import { startAll } from "./start-all.js";
import { until } from "./until.js";

/** @typedef {import("./redis-server.js").RedisServer} RedisServer */
/** @typedef {{ first: number; last: number; master: number; replicas: number[] }} Range ports that serve these slots */
/** @typedef {Awaited<ReturnType<typeof startCluster>>} RedisCluster */

const SLOTS = 16_384;
const MASTERS = 3;

/** Starts six nodes and resolves when every slot is served and every replica follows its master. */
export async function startCluster({ nodeTimeoutMs = 1000 } = {}) {
  const args = [
    ...["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"],
    ...["--cluster-node-timeout", `${nodeTimeoutMs}`, "--cluster-replica-validity-factor", "0"],
    ...["--cluster-require-full-coverage", "no", "--cluster-allow-replica-migration", "no"],
    ...["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"],
  ];
  const nodes = await startAll(Array.from({ length: 2 * MASTERS }, () => () => startRedis({ args })));
  const stop = async () => {
    await Promise.all(nodes.map((node) => node.stop()));
  };
  const settled = () => until("the cluster did not settle", () => instability(nodes));
  try {
    await join(nodes);
    await settled();
  } catch (error) {
    await stop();
    throw error;
  }

  const ranges = () => agreedRanges(nodes);
  const at = (/** @type {number} */ port) => {
    const node = nodes.find((node) => node.port === port);
    if (!node) throw new Error(`The cluster reports port ${port}, which is not one of its nodes.`);
    return node;
  };
  return {
    nodes,
    ports: nodes.map(({ port }) => port),
    /** The node that serves a slot, by majority of the running nodes. */
    async masterOf(/** @type {number} */ slot) {
      const range = (await ranges()).find(({ first, last }) => first <= slot && slot <= last);
      if (!range) throw new Error(`No node serves slot ${slot}.`);
      return at(range.master);
    },
    /** Sends one command to every master. */
    async callAll(/** @type {import("./resp.js").Argument[]} */ ...args) {
      const ports = new Set((await ranges()).map(({ master }) => master));
      return Promise.all([...ports].map((port) => at(port).call(...args)));
    },
    /** Waits until the running nodes agree, serve every slot, and replicas are in sync. */
    settled,
    stop,
  };
}

/** Creates the cluster like `redis-cli --cluster create`, without its pauses of a second. */
async function join(/** @type {RedisServer[]} */ nodes) {
  const masters = nodes.slice(0, MASTERS);
  const edge = (/** @type {number} */ i) => Math.floor((i * SLOTS) / MASTERS);
  await Promise.all(masters.map((node, i) => node.call("CLUSTER", "ADDSLOTSRANGE", edge(i), edge(i + 1) - 1)));
  // Set different epochs: nodes with equal epochs would have to resolve the conflict first.
  await Promise.all(nodes.map((node, i) => node.call("CLUSTER", "SET-CONFIG-EPOCH", i + 1)));
  for (const a of nodes) {
    for (const b of nodes) if (a !== b) await a.call("CLUSTER", "MEET", "127.0.0.1", b.port);
  }
  await Promise.all(
    nodes.slice(MASTERS).map(async (replica, i) => {
      const id = await /** @type {RedisServer} */ (masters[i]).call("CLUSTER", "MYID");
      // Rejected until the nodes have met.
      const follow = async () => void (await replica.call("CLUSTER", "REPLICATE", `${id}`));
      await until(`the replica on port ${replica.port} did not meet its master`, follow);
    }),
  );
}

/** The reason why the cluster is not stable, or undefined. */
async function instability(/** @type {RedisServer[]} */ nodes) {
  const running = nodes.filter((node) => node.running);
  const views = await Promise.all(running.map(viewOf));
  const [first] = views;
  if (!first) return "no node runs";
  const ports = running.map(({ port }) => port).sort();
  for (const { port, info, ranges } of views) {
    if (!info.includes("cluster_state:ok\r")) return `port ${port} reports ${/cluster_state:\w+/.exec(info)?.[0]}`;
    const served = Number(/cluster_slots_ok:(\d+)/.exec(info)?.[1]);
    if (served !== SLOTS) return `port ${port} sees ${served} slots served`;
    if (JSON.stringify(ranges) !== JSON.stringify(first.ranges)) return `port ${port} and ${first.port} disagree`;
    const named = [...new Set(ranges.flatMap(({ master, replicas }) => [master, ...replicas]))].sort();
    if (`${named}` !== `${ports}`) return `port ${port} reports ${named}, but ${ports} are running`;
  }
  const at = (/** @type {number} */ port) => /** @type {RedisServer} */ (nodes.find((node) => node.port === port));
  const pairs = first.ranges.flatMap(({ master, replicas }) => replicas.map((replica) => [at(replica), at(master)]));
  const reasons = await Promise.all(
    pairs.map(([replica, master]) => replica && master && notFollowing(replica, master)),
  );
  return reasons.find(Boolean);
}

/** The view of one node. Fails after a second without a reply. */
async function viewOf(/** @type {RedisServer} */ { port }) {
  const connection = await connect(port, { timeoutMs: 1000 });
  try {
    const [info, slots] = await Promise.all([connection.call("CLUSTER", "INFO"), connection.call("CLUSTER", "SLOTS")]);
    return { port, info: `${info}`, ranges: rangesIn(slots) };
  } finally {
    connection.close();
  }
}

/** @returns {Range[]} */
function rangesIn(/** @type {import("./resp.js").Reply} */ slots) {
  const list = /** @type {[number, number, ...[string, number][]][]} */ (slots);
  return list
    .map(([first, last, master, ...replicas]) => ({
      first,
      last,
      master: master?.[1] ?? 0,
      replicas: replicas.map(([, port]) => port).sort(),
    }))
    .sort((a, b) => a.first - b.first);
}

/** The slot ranges by majority of the running nodes. A resumed node may still consider itself a master. */
async function agreedRanges(/** @type {RedisServer[]} */ nodes) {
  const views = await Promise.allSettled(nodes.filter((node) => node.running).map(viewOf));
  const replies = views.flatMap((one) => (one.status === "fulfilled" ? [one.value.ranges] : []));
  /** @type {Map<string, number>} */
  const votes = new Map();
  for (const ranges of replies) {
    const text = JSON.stringify(ranges.map(({ first, last, master }) => ({ first, last, master })));
    votes.set(text, (votes.get(text) ?? 0) + 1);
  }
  const [winner] = [...votes].sort((a, b) => b[1] - a[1]);
  if (!winner) throw new Error("No node of the cluster replies.");
  return /** @type {Omit<Range, "replicas">[]} */ (JSON.parse(winner[0]));
}
