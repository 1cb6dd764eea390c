/** Every client of Redis and Valkey that is supported, in every version that differs, and how each is opened. */
import * as ioredis5 from "ioredis5";
import * as ioredis6 from "ioredis6";
import * as iovalkey from "iovalkey";
import * as redis4 from "redis4";
import * as redis5 from "redis5";
import * as redis6 from "redis6";
import type { RedisClient } from "sluice/redis";
import type { Opened } from "./kind.ts";
import type { Place, Topology } from "./topologies.ts";

/** What can be chosen of a client; those that do not know an option make no use of it. */
export interface ClientOptions {
  keyPrefix?: string;
  autoResendUnfulfilledCommands?: boolean;
}

export type Open = (place: Place, options?: ClientOptions) => Opened<RedisClient>;

type Openers = Readonly<Partial<Record<Topology, Open>>>;

// That their types fit is shown by client-types.ts; here they are all treated alike.
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
  "ioredis 6": ofIoredis(ioredis6 as unknown as Ioredis),
  "ioredis 5": ofIoredis(ioredis5 as unknown as Ioredis),
  iovalkey: ofIoredis(iovalkey as unknown as Ioredis),
  "redis 6": ofNodeRedis(redis6 as unknown as NodeRedis),
  "redis 5": ofNodeRedis(redis5 as unknown as NodeRedis),
  // Has no client for Sentinel.
  "redis 4": ofNodeRedis(redis4 as unknown as NodeRedis),
};

function ofIoredis({ Redis, Cluster }: Ioredis): Openers {
  const opened = (client: IoredisClient): Opened<RedisClient> => ({
    client,
    ready: new Promise<void>((resolve) => client.once("ready", resolve)),
    close: () => client.disconnect(),
  });
  return {
    "single server": ({ addresses: [server] }, options) => opened(new Redis({ ...server, ...options })),
    Cluster: ({ addresses, detours: natMap }, redisOptions) => opened(new Cluster(addresses, { natMap, redisOptions })),
    Sentinel: ({ addresses: sentinels, name, detours: natMap }, options) =>
      opened(new Redis({ sentinels, name, natMap, ...options })),
  };
}

function ofNodeRedis({ createClient, createCluster, createSentinel }: NodeRedis): Openers {
  const opened = (client: NodeRedisClient): Opened<RedisClient> => {
    client.on("error", () => {});
    return { client, ready: client.connect(), close: () => (client.destroy ?? client.disconnect)?.call(client) };
  };
  return {
    "single server": ({ addresses: [socket] }, options) => opened(createClient({ socket: { ...socket }, ...options })),
    Cluster: ({ addresses, detours: nodeAddressMap }, options) => {
      const rootNodes = addresses.map((socket) => ({ socket: { ...socket } }));
      return opened(createCluster({ rootNodes, nodeAddressMap, ...options }));
    },
    ...(createSentinel && {
      Sentinel: ({ addresses: sentinelRootNodes, name, detours: nodeAddressMap }, options) =>
        opened(createSentinel({ name, sentinelRootNodes, nodeAddressMap, ...options })),
    }),
  };
}
