/** A redis-server of one's own, on loopback and without a disk. */
import { startProcess } from "./server-process.js";

export { ensureRedis } from "./ensure-redis.js";
export { freePort } from "./free-port.js";

/**
 * @typedef {object} RedisOptions
 * @property {string[]} [args] more options of redis-server: `["--maxmemory", "8mb"]`. The log has to stay on standard
 *   output at its level, because it says when the server listens.
 * @property {string} [dir] where it works; without it in a temporary directory, which goes with the server
 * @property {number} [port] without it a free one
 * @property {NodeJS.ProcessEnv} [env] added to the environment of this process
 */

/** @typedef {import("./server-process.js").ServerProcess} RedisServer */

/** Starts a server and resolves when it listens. It ends with this process, if nobody stops it before. */
export function startRedis(/** @type {RedisOptions} */ { args = [], ...where } = {}) {
  return startProcess({
    ...where,
    args: (port, dir) => [
      ...["--port", `${port}`, "--bind", "127.0.0.1", "--protected-mode", "no", "--dir", dir],
      ...["--save", "", "--appendonly", "no", "--enable-debug-command", "local"],
      // A script that runs on is refused early; a server that stops does not wait for replicas.
      ...["--busy-reply-threshold", "200", "--shutdown-timeout", "0"],
      ...args,
    ],
  });
}
