/** A redis-server and a client of the file that imports this, from its first test to its last. */
import { Redis } from "ioredis";
import { afterAll, beforeAll } from "vitest";
import { type RedisServer, startRedis } from "../servers/redis-server.js";

export let server: RedisServer;
export let redis: Redis;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.port);
});
afterAll(async () => {
  redis?.disconnect();
  await server?.stop();
});
