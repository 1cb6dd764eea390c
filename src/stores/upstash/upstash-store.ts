/** Buckets in Upstash Redis over REST, for runtimes without sockets: the script and the batches of the Redis store. */
import { optionError } from "../../core/errors.ts";
import type { Connection } from "../redis/redis-client.ts";
import { type RedisStore, type RedisStoreOptions, storeOn } from "../redis/redis-store.ts";

/** A client of @upstash/redis, told by the methods used. */
export interface UpstashClient {
  evalsha(sha: string, keys: string[], args: string[]): Promise<unknown>;
  eval(script: string, keys: string[], args: string[]): Promise<unknown>;
}

/** Keeps buckets in Upstash, through a client whose retries are off: `new Redis({ url, token, retry: { retries: 0 } })`. */
export function upstashStore(redis: UpstashClient, options: RedisStoreOptions = {}): RedisStore {
  return storeOn("upstashStore", redis, connectionTo, options);
}

function connectionTo(redis: UpstashClient): Connection {
  const methods = redis as Partial<UpstashClient> | null | undefined;
  // What has a status is a client of sockets, whose methods of these names take other arguments.
  if (typeof methods?.evalsha !== "function" || typeof methods.eval !== "function" || "status" in methods) {
    throw optionError("invalid-option", "redis", "a client of @upstash/redis", redis);
  }
  // Not a part of its types: a request that it repeats by itself, because the answer was lost, may be charged twice.
  const { retry } = (redis as { client?: { retry?: { attempts?: number } } }).client ?? {};
  if (retry?.attempts !== undefined && retry.attempts > 0) {
    const expected = "a client that sends nothing twice: new Redis({ ..., retry: { retries: 0 } })";
    throw optionError("invalid-option", "redis", expected, `retries: ${retry.attempts}`);
  }
  return {
    cluster: false,
    // A request is dear, and every command is paid for.
    mostKeys: 128,
    // On Cloudflare Workers I/O belongs to the request that began it, and ends with it.
    sharesTurns: false,
    keyPrefix: "",
    // Every request is a connection of its own.
    readiness: () => "ready",
    evalsha: (sha, keys, args) => redis.evalsha(sha, keys, args),
    eval: (script, keys, args) => redis.eval(script, keys, args),
  };
}
