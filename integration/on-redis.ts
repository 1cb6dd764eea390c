/** Limiters on their own redis-server, with ioredis. */
import { Redis } from "ioredis";
import { createLimiter, type FailureOptions, type Policy, type RateLimiter } from "sluice";
import type { IdempotencyStore } from "sluice/idempotency";
import { redisIdempotencyStore, redisStore } from "sluice/redis";
import { type RedisServer, startRedis } from "../test/servers/redis-server.js";

export interface OnRedis {
  readonly server: RedisServer;
  limiter(policy: Policy, failure?: FailureOptions): RateLimiter;
  idempotencyStore(): IdempotencyStore;
  close(): Promise<void>;
}

/** Starts a server and a client. */
export async function onRedis(): Promise<OnRedis> {
  const server = await startRedis();
  const client = new Redis({ host: "127.0.0.1", port: server.port });
  // ioredis logs errors without a listener.
  client.on("error", () => {});
  const store = redisStore(client);
  let routes = 0;
  return {
    server,
    // The default "local" would let the tests pass without Redis.
    limiter: (policy, failure = { onStoreError: "throw", deadlineMs: "20s" }) =>
      createLimiter({ policy, store, ...failure }),
    // With a secret of its own: the routes of the suite use the same users and keys.
    idempotencyStore: () => redisIdempotencyStore(client, { hmacSecret: `route ${routes++}` }),
    async close() {
      client.disconnect();
      await server.stop();
    },
  };
}
