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
  const settled = () => until("the cluster did not settle", () => unrest(nodes));
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
    if (!node) throw new Error(`the cluster names port ${port}, which is none of ours`);
    return node;
  };
  return {
    nodes,
    ports: nodes.map(({ port }) => port),
    /** The node that serves a slot, as most of the running nodes see it. */
    async masterOf(/** @type {number} */ slot) {
      const range = (await ranges()).find(({ first, last }) => first <= slot && slot <= last);
      if (!range) throw new Error(`no node serves slot ${slot}`);
      return at(range.master);
    },
    /** Sends one command to every master. */
    async callAll(/** @type {import("./resp.js").Argument[]} */ ...args) {
      const ports = new Set((await ranges()).map(({ master }) => master));
      return Promise.all([...ports].map((port) => at(port).call(...args)));
    },
    /** Waits until the nodes that run agree, serve every slot, and the replicas among them follow. */
    settled,
    stop,
  };
}

/** What `redis-cli --cluster create` does, without its pauses of a second. */
async function join(/** @type {RedisServer[]} */ nodes) {
  const masters = nodes.slice(0, MASTERS);
  const edge = (/** @type {number} */ i) => Math.floor((i * SLOTS) / MASTERS);
  await Promise.all(masters.map((node, i) => node.call("CLUSTER", "ADDSLOTSRANGE", edge(i), edge(i + 1) - 1)));
  // Different epochs from the beginning, or the nodes would have to fight them out.
  await Promise.all(nodes.map((node, i) => node.call("CLUSTER", "SET-CONFIG-EPOCH", i + 1)));
  for (const a of nodes) {
    for (const b of nodes) if (a !== b) await a.call("CLUSTER", "MEET", "127.0.0.1", b.port);
  }
  await Promise.all(
    nodes.slice(MASTERS).map(async (replica, i) => {
      const id = await /** @type {RedisServer} */ (masters[i]).call("CLUSTER", "MYID");
      // It is refused until the two have met.
      const follow = async () => void (await replica.call("CLUSTER", "REPLICATE", `${id}`));
      await until(`the replica on port ${replica.port} did not meet its master`, follow);
    }),
  );
}

/** Why the cluster is not at rest; undefined when it is. */
async function unrest(/** @type {RedisServer[]} */ nodes) {
  const running = nodes.filter((node) => node.running);
  const views = await Promise.all(running.map(viewOf));
  const [first] = views;
  if (!first) return "no node runs";
  const ports = running.map(({ port }) => port).sort();
  for (const { port, info, ranges } of views) {
    if (!info.includes("cluster_state:ok\r")) return `port ${port} says ${/cluster_state:\w+/.exec(info)?.[0]}`;
    const served = Number(/cluster_slots_ok:(\d+)/.exec(info)?.[1]);
    if (served !== SLOTS) return `port ${port} sees ${served} slots served`;
    if (JSON.stringify(ranges) !== JSON.stringify(first.ranges)) return `port ${port} and ${first.port} disagree`;
    const named = [...new Set(ranges.flatMap(({ master, replicas }) => [master, ...replicas]))].sort();
    if (`${named}` !== `${ports}`) return `port ${port} names ${named} while ${ports} run`;
  }
  const at = (/** @type {number} */ port) => /** @type {RedisServer} */ (nodes.find((node) => node.port === port));
  const pairs = first.ranges.flatMap(({ master, replicas }) => replicas.map((replica) => [at(replica), at(master)]));
  const reasons = await Promise.all(
    pairs.map(([replica, master]) => replica && master && notFollowing(replica, master)),
  );
  return reasons.find(Boolean);
}

/** What one node knows. A node that does not answer within a second is as good as down. */
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

/** What most of the running nodes say. One that comes back from a pause still takes itself for a master. */
async function agreedRanges(/** @type {RedisServer[]} */ nodes) {
  const asked = await Promise.allSettled(nodes.filter((node) => node.running).map(viewOf));
  const answers = asked.flatMap((one) => (one.status === "fulfilled" ? [one.value.ranges] : []));
  /** @type {Map<string, number>} */
  const votes = new Map();
  for (const answer of answers) {
    const text = JSON.stringify(answer.map(({ first, last, master }) => ({ first, last, master })));
    votes.set(text, (votes.get(text) ?? 0) + 1);
  }
  const [winner] = [...votes].sort((a, b) => b[1] - a[1]);
  if (!winner) throw new Error("no node of the cluster answers");
  return /** @type {Omit<Range, "replicas">[]} */ (JSON.parse(winner[0]));
}
