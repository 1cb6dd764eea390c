/** Starts a redis-server on loopback without persistence. */
import { startProcess } from "./server-process.js";

export { ensureRedis } from "./ensure-redis.js";
export { freePort } from "./free-port.js";

/**
 * @typedef {object} RedisOptions
 * @property {string[]} [args] additional options of redis-server: `["--maxmemory", "8mb"]`. Don't change log file and
 *   level: the log shows when the server listens.
 * @property {string} [dir] working directory. Default: a temporary directory, deleted with the server
 * @property {number} [port] default: a free port
 * @property {NodeJS.ProcessEnv} [env] added to the environment of this process
 */

/** @typedef {import("./server-process.js").ServerProcess} RedisServer */

/** Starts a server and resolves when it listens. It ends with this process at the latest. */
export function startRedis(/** @type {RedisOptions} */ { args = [], ...where } = {}) {
  return startProcess({
    ...where,
    args: (port, dir) => [
      ...["--port", `${port}`, "--bind", "127.0.0.1", "--protected-mode", "no", "--dir", dir],
      ...["--save", "", "--appendonly", "no", "--enable-debug-command", "local"],
      // Reply BUSY early during a long script, and don't wait for replicas on shutdown.
      ...["--busy-reply-threshold", "200", "--shutdown-timeout", "0"],
      ...args,
    ],
  });
}
