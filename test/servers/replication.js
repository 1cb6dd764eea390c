/** Checks that a replica is in sync with its master. */

/** @typedef {import("./redis-server.js").RedisServer} RedisServer */

/**
 * Returns the reason why a replica is not in sync yet, or undefined. A link with status up is not enough: after a diskless
 * sync the master sends no writes until the replica has sent an ACK, up to a second later, and a failover in between loses
 * them. So the replica's offset must reach the master's.
 */
export async function notFollowing(/** @type {RedisServer} */ replica, /** @type {RedisServer} */ master) {
  const masterField = await replicationOf(master);
  const replicaField = await replicationOf(replica);
  if (masterField("role") !== "master") return `port ${master.port} is not a master`;
  if (replicaField("master_port") !== `${master.port}`) return `port ${replica.port} does not follow ${master.port}`;
  if (replicaField("master_link_status") !== "up") return `port ${replica.port} has no link to ${master.port}`;
  const [sent, received] = [Number(masterField("master_repl_offset")), Number(replicaField("slave_repl_offset"))];
  // A master sends at least a PING every second.
  if (sent === 0 || received < sent)
    return `port ${replica.port} received ${received} of ${sent} bytes from ${master.port}`;
  return undefined;
}

async function replicationOf(/** @type {RedisServer} */ server) {
  const info = `${await server.call("INFO", "replication")}`;
  return (/** @type {string} */ field) => new RegExp(`^${field}:(.*)\r$`, "m").exec(info)?.[1];
}
