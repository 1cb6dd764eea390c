/** The ways in which Redis is set up, each as real servers on loopback. */
import { type Mode, startProxy } from "../../test/servers/fault-proxy.js";
import { startCluster } from "../../test/servers/redis-cluster.js";
import { startSentinel } from "../../test/servers/redis-sentinel.js";
import { startRedis } from "../../test/servers/redis-server.js";

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** Servers that run, and what a client has to be told of them. */
export interface Place {
  /** The server, the nodes of the cluster, or the sentinels. */
  readonly addresses: readonly Address[];
  /** What the sentinels call the master. */
  readonly name?: string;
  /** Where to find an address that the servers name, if not there. */
  readonly detours?: Readonly<Record<string, Address>>;
}

/** The servers themselves. */
export interface Servers extends Place {
  /** The ports of all that hold data. */
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

/** The same servers through proxies that can harm what they carry. */
export async function proxied(servers: Servers) {
  const proxies = await Promise.all(servers.ports.map((port) => startProxy(port)));
  const detours = Object.fromEntries(
    proxies.map(({ port }, i) => [`127.0.0.1:${servers.ports[i]}`, at(port)] as const),
  );
  const place: Place = {
    ...servers,
    // Sentinels hold no data and stay where they are.
    addresses: servers.addresses.map((address) => detours[`${address.host}:${address.port}`] ?? address),
    detours,
  };
  return {
    place,
    set(mode: Mode) {
      for (const proxy of proxies) proxy.set(mode);
    },
    stop: () => Promise.all(proxies.map((proxy) => proxy.stop())),
  };
}

function at(port: number): Address {
  return { host: "127.0.0.1", port };
}
