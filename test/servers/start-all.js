/** Starts several servers at once. */

/** @typedef {import("./redis-server.js").RedisServer} RedisServer */

/** All of them, or none: when one fails, those that did start are stopped. */
export async function startAll(/** @type {(() => Promise<RedisServer>)[]} */ starts) {
  const results = await Promise.allSettled(starts.map((start) => start()));
  const servers = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
  const failed = results.find((result) => result.status === "rejected");
  if (!failed) return servers;
  await Promise.all(servers.map((server) => server.stop()));
  throw failed.reason;
}
