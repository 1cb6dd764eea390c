/** Vitest global setup: one redis-server for the whole run. Tests read its port with `inject("redisPort")`. */
import { startRedis } from "./redis-server.js";

export default async function setup(/** @type {import("vitest/node").TestProject} */ project) {
  const server = await startRedis();
  project.provide("redisPort", server.port);
  return server.stop;
}
