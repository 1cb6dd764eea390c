/** Tells whether a replica really follows its master. */

/** @typedef {import("./redis-server.js").RedisServer} RedisServer */

/**
 * Why a replica does not follow its master yet; undefined when it does. A link that both call up can still carry
 * nothing: after a diskless sync the master sends no writes until the replica has spoken again, up to a second later,
 * and a failover in between loses them. So the replica has to be where the master was.
 */
export async function notFollowing(/** @type {RedisServer} */ replica, /** @type {RedisServer} */ master) {
  const ahead = await replicationOf(master);
  const behind = await replicationOf(replica);
  if (ahead("role") !== "master") return `port ${master.port} is no master`;
  if (behind("master_port") !== `${master.port}`) return `port ${replica.port} does not follow ${master.port}`;
  if (behind("master_link_status") !== "up") return `port ${replica.port} has no link to ${master.port}`;
  const [sent, got] = [Number(ahead("master_repl_offset")), Number(behind("slave_repl_offset"))];
  // Masters send something every second, if only a PING.
  if (sent === 0 || got < sent) return `port ${replica.port} got ${got} of ${sent} bytes from ${master.port}`;
  return undefined;
}

async function replicationOf(/** @type {RedisServer} */ server) {
  const info = `${await server.call("INFO", "replication")}`;
  return (/** @type {string} */ field) => new RegExp(`^${field}:(.*)\r$`, "m").exec(info)?.[1];
}
