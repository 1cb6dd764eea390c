/** Redis topologies, each as real servers on loopback. */
import { type Mode, startProxy } from "../../test/servers/fault-proxy.js";
import { startCluster } from "../../test/servers/redis-cluster.js";
import { startSentinel } from "../../test/servers/redis-sentinel.js";
import { startRedis } from "../../test/servers/redis-server.js";

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Where a client finds its servers. */
export interface ServerAddresses {
  /** The server, the nodes of the cluster, or the sentinels. */
  readonly addresses: readonly Address[];
  /** The master's name in Sentinel. */
  readonly name?: string;
  /** Replaces addresses that the servers announce. */
  readonly addressMap?: Readonly<Record<string, Address>>;
}

/** Running servers. */
export interface Servers extends ServerAddresses {
  /** Ports of the servers that hold data. */
  readonly ports: readonly number[];
  /** Sends one command to every master. */
  callAll(...command: string[]): Promise<unknown[]>;
  stop(): Promise<void>;
}

export type Topology = "single server" | "Cluster" | "Sentinel";

export const topologies: Readonly<Record<Topology, () => Promise<Servers>>> = {
  async "single server"() {
    const { port, call, stop } = await startRedis();
    return { addresses: [at(port)], ports: [port], callAll: async (...command) => [await call(...command)], stop };
  },
  async Cluster() {
    const { ports, callAll, stop } = await startCluster();
    return { addresses: ports.map(at), ports, callAll, stop };
  },
  async Sentinel() {
    const { name, nodes, sentinels, master, stop } = await startSentinel();
    const callAll = async (...command: string[]) => [await (await master()).call(...command)];
    return { name, addresses: sentinels, ports: nodes.map(({ port }) => port), callAll, stop };
  },
};

/** Puts fault-injecting proxies in front of servers. */
export async function behindProxies(servers: Servers) {
  const proxies = await Promise.all(servers.ports.map((port) => startProxy(port)));
  const addressMap = Object.fromEntries(
    proxies.map(({ port }, i) => [`127.0.0.1:${servers.ports[i]}`, at(port)] as const),
  );
  const addresses: ServerAddresses = {
    ...servers,
    // Sentinels hold no data and need no proxy.
    addresses: servers.addresses.map((address) => addressMap[`${address.host}:${address.port}`] ?? address),
    addressMap,
  };
  return {
    addresses,
    setMode(mode: Mode) {
      for (const proxy of proxies) proxy.set(mode);
    },
    stop: () => Promise.all(proxies.map((proxy) => proxy.stop())),
  };
}

function at(port: number): Address {
  return { host: "127.0.0.1", port };
}
