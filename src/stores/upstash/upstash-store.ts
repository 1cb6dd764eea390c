/** A store in Upstash Redis over REST, for runtimes without sockets. It uses the script and batches of the Redis store. */
import { optionError, SluiceError } from "../../base/errors.ts";
import { type Connection, sharedConnection } from "../redis/redis-client.ts";
import { createRedisStore, type RedisStore, type RedisStoreOptions } from "../redis/redis-store.ts";

/** A client of `@upstash/redis`. */
export interface UpstashClient {
  /** Runs a script by its hash. */
  evalsha(sha: string, keys: string[], args: string[]): Promise<unknown>;
  /** Runs a script by its text. */
  eval(script: string, keys: string[], args: string[]): Promise<unknown>;
}

/** Upstash bills every command, so calls are larger than those of a socket client. */
const MAX_KEYS_PER_CALL = 128;

/** Creates a store in Upstash Redis. The client's retries must be off: `new Redis({ url, token, retry: { retries: 0 } })`. */
export function upstashStore(redis: UpstashClient, options: RedisStoreOptions = {}): RedisStore {
  return createRedisStore("upstashStore", redis, unretriedConnectionTo, options);
}

/** Rejects a client that retries: a request that is retried because its response was lost may be charged twice. */
function unretriedConnectionTo(redis: UpstashClient): Connection {
  const connection = connectionTo(redis);
  // Not part of the client's types.
  const { retry } = (redis as { client?: { retry?: { attempts?: number } } }).client ?? {};
  if (retry?.attempts !== undefined && retry.attempts > 0) {
    throw new SluiceError(
      "invalid-option",
      `redis must not retry requests, because a retry may be charged twice, but it retries ${retry.attempts} times. Use new Redis({ url, token, retry: { retries: 0 } }).`,
      { option: "redis", expected: "a client with retry: { retries: 0 }", received: `retries: ${retry.attempts}` },
    );
  }
  return connection;
}

/** Returns the connection of a client, or throws if it is not one of `@upstash/redis`. */
export function connectionTo(redis: UpstashClient): Connection {
  return sharedConnection(redis, createConnection);
}

function createConnection(redis: UpstashClient): Connection {
  const methods = redis as Partial<UpstashClient> | null | undefined;
  // ioredis has methods of these names with other parameters; only its clients have a status.
  if (typeof methods?.evalsha !== "function" || typeof methods.eval !== "function" || "status" in methods) {
    throw optionError(
      "invalid-option",
      "redis",
      "a client of @upstash/redis (for other Redis clients, use sluice/redis)",
      redis,
    );
  }
  return {
    isCluster: false,
    maxKeysPerCall: MAX_KEYS_PER_CALL,
    // On Cloudflare Workers, I/O belongs to the request that started it and ends with it.
    batchesAcrossRequests: false,
    keyPrefix: "",
    readiness: () => "ready",
    evalsha: (sha, keys, args) => redis.evalsha(sha, keys, args),
    eval: (script, keys, args) => redis.eval(script, keys, args),
  };
}
