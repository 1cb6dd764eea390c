/** All supported Redis and Valkey clients and major versions, and how to open them. */
import * as ioredis5 from "ioredis5";
import * as ioredis6 from "ioredis6";
import * as iovalkey from "iovalkey";
import * as redis4 from "redis4";
import * as redis5 from "redis5";
import * as redis6 from "redis6";
import type { RedisClient } from "sluice/redis";
import type { OpenedClient } from "./client-kind.ts";
import type { ServerAddresses, Topology } from "./topologies.ts";

/** Options of a client. Clients ignore options that they don't have. */
export interface ClientOptions {
  keyPrefix?: string;
  autoResendUnfulfilledCommands?: boolean;
}

export type Open = (servers: ServerAddresses, options?: ClientOptions) => OpenedClient<RedisClient>;

type Openers = Readonly<Partial<Record<Topology, Open>>>;

// client-types.ts checks the real types; here all versions share one.
interface Ioredis {
  Redis: new (options: object) => IoredisClient;
  Cluster: new (nodes: readonly object[], options: object) => IoredisClient;
}
type IoredisClient = Extract<RedisClient, { status: string }> & {
  once(event: "ready", listener: () => void): unknown;
  disconnect(): void;
};

interface NodeRedis {
  createClient(options: object): NodeRedisClient;
  createCluster(options: object): NodeRedisClient;
  createSentinel?(options: object): NodeRedisClient;
}
type NodeRedisClient = Exclude<RedisClient, { status: string }> & {
  on(event: "error", listener: () => void): unknown;
  connect(): Promise<unknown>;
  destroy?(): unknown;
  disconnect?(): unknown;
};

export const clients: Readonly<Record<string, Openers>> = {
  "ioredis 6": ioredisOpeners(ioredis6 as unknown as Ioredis),
  "ioredis 5": ioredisOpeners(ioredis5 as unknown as Ioredis),
  iovalkey: ioredisOpeners(iovalkey as unknown as Ioredis),
  "redis 6": nodeRedisOpeners(redis6 as unknown as NodeRedis),
  "redis 5": nodeRedisOpeners(redis5 as unknown as NodeRedis),
  // Without createSentinel.
  "redis 4": nodeRedisOpeners(redis4 as unknown as NodeRedis),
};

function ioredisOpeners({ Redis, Cluster }: Ioredis): Openers {
  const opened = (client: IoredisClient): OpenedClient<RedisClient> => ({
    client,
    ready: new Promise<void>((resolve) => client.once("ready", resolve)),
    close: () => client.disconnect(),
  });
  return {
    "single server": ({ addresses: [server] }, options) => opened(new Redis({ ...server, ...options })),
    Cluster: ({ addresses, addressMap: natMap }, redisOptions) =>
      opened(new Cluster(addresses, { natMap, redisOptions })),
    Sentinel: ({ addresses: sentinels, name, addressMap: natMap }, options) =>
      opened(new Redis({ sentinels, name, natMap, ...options })),
  };
}

function nodeRedisOpeners({ createClient, createCluster, createSentinel }: NodeRedis): Openers {
  const opened = (client: NodeRedisClient): OpenedClient<RedisClient> => {
    client.on("error", () => {});
    return { client, ready: client.connect(), close: () => (client.destroy ?? client.disconnect)?.call(client) };
  };
  return {
    "single server": ({ addresses: [socket] }, options) => opened(createClient({ socket: { ...socket }, ...options })),
    Cluster: ({ addresses, addressMap: nodeAddressMap }, options) => {
      const rootNodes = addresses.map((socket) => ({ socket: { ...socket } }));
      return opened(createCluster({ rootNodes, nodeAddressMap, ...options }));
    },
    ...(createSentinel && {
      Sentinel: ({ addresses: sentinelRootNodes, name, addressMap: nodeAddressMap }, options) =>
        opened(createSentinel({ name, sentinelRootNodes, nodeAddressMap, ...options })),
    }),
  };
}
