/** A redis-server and a client for the test file that imports this module. Its tests that use them need `withRedis`. */
import { Redis } from "ioredis";
import { afterAll, beforeAll } from "vitest";
import { hasRedis } from "../servers/needs.ts";
import { type RedisServer, startRedis } from "../servers/redis-server.js";

export let server: RedisServer;
export let redis: Redis;

beforeAll(async () => {
  if (!hasRedis) return;
  server = await startRedis();
  redis = new Redis(server.port);
  // Ready, so that a monitor does not receive the first commands of this client before its own reply.
  await redis.ping();
});
afterAll(async () => {
  redis?.disconnect();
  await server?.stop();
});
