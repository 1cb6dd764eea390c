/** Finds free ports for servers. */
import { createServer } from "node:net";

// Below the ephemeral ports, which an outgoing connection could take before the server does.
// The bus of a cluster node listens 10 000 higher; the two ranges do not overlap.
const FIRST = 11_000;
const COUNT = 10_000;
const BUS = 10_000;

/** @type {Set<number>} */
const used = new Set();

/** Returns a free loopback port whose cluster bus port is free, too. Never returns a port twice in a process. */
export async function freePort() {
  for (let tries = 0; tries < 200; tries++) {
    const port = FIRST + Math.floor(Math.random() * COUNT);
    if (used.has(port) || !(await isFree(port)) || !(await isFree(port + BUS))) continue;
    used.add(port);
    return port;
  }
  throw new Error(`No free port from ${FIRST} to ${FIRST + COUNT - 1} in 200 tries.`);
}

/** @returns {Promise<boolean>} */
function isFree(/** @type {number} */ port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
