/** A redis-server and a client for the test file that imports this module. */
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
