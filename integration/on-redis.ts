/** Limiters on their own redis-server, with ioredis. */
import { Redis } from "ioredis";
import { createLimiter, type FailureOptions, type Policy, type RateLimiter } from "sluice";
import { redisStore } from "sluice/redis";
import { type RedisServer, startRedis } from "../test/servers/redis-server.js";

export interface OnRedis {
  readonly server: RedisServer;
  limiter(policy: Policy, failure?: FailureOptions): RateLimiter;
  close(): Promise<void>;
}

/** Starts a server and a client. */
export async function onRedis(): Promise<OnRedis> {
  const server = await startRedis();
  const client = new Redis({ host: "127.0.0.1", port: server.port });
  // ioredis logs errors without a listener.
  client.on("error", () => {});
  const store = redisStore(client);
  return {
    server,
    // The default "local" would let the tests pass without Redis.
    limiter: (policy, failure = { onStoreError: "throw", deadlineMs: "20s" }) =>
      createLimiter({ policy, store, ...failure }),
    async close() {
      client.disconnect();
      await server.stop();
    },
  };
}
