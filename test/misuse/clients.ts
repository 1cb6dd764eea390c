/** Redis clients that were never connected, or are closed, and the parts of Workers that mistakes are made with. */
import { Redis } from "ioredis";
import { createClient } from "redis";
import type { NodeRedisLike } from "sluice/redis";

/** A client of node-redis without `await client.connect()`. */
export function unconnectedClient(): NodeRedisLike {
  return createClient() as unknown as NodeRedisLike;
}

/** A client of ioredis that was closed. */
export function closedClient(): Redis {
  const client = new Redis({ lazyConnect: true });
  client.disconnect();
  return client;
}

/** A client of ioredis for a port that nothing listens on. */
export function wrongPortClient(): Redis {
  const client = new Redis({ host: "127.0.0.1", port: 1, lazyConnect: true, retryStrategy: () => null });
  client.on("error", () => {});
  return client;
}

/** A KV namespace with the methods that are looked for. Nothing is stored. */
export const kvNamespace = {
  get: async () => null,
  getWithMetadata: async () => null,
  put: async () => {},
  delete: async () => {},
};

/** A rate limit binding that allows everything. */
export const binding = { limit: async () => ({ success: true }) };
