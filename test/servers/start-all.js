/** Starts several servers concurrently. */

/** @typedef {import("./redis-server.js").RedisServer} RedisServer */

/** Starts all servers. If one fails, stops the others and rejects. */
export async function startAll(/** @type {(() => Promise<RedisServer>)[]} */ starts) {
  const results = await Promise.allSettled(starts.map((start) => start()));
  const servers = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  const failed = results.find((result) => result.status === "rejected");
  if (!failed) return servers;
  await Promise.all(servers.map((server) => server.stop()));
  throw failed.reason;
}
