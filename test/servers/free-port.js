/** Finds ports for servers that have to be told theirs. */
import { createServer } from "node:net";

// Below what the kernel hands to outgoing connections, which could otherwise take the port before the server does.
// The bus of a cluster node listens 10000 higher: these two ranges do not overlap either.
const FIRST = 11_000;
const COUNT = 10_000;
const BUS = 10_000;

/** @type {Set<number>} */
const given = new Set();

/** A loopback port that is free, as is the cluster bus port that belongs to it. Never the same twice in a process. */
export async function freePort() {
  for (let tries = 0; tries < 200; tries++) {
    const port = FIRST + Math.floor(Math.random() * COUNT);
    if (given.has(port) || !(await isFree(port)) || !(await isFree(port + BUS))) continue;
    given.add(port);
    return port;
  }
  throw new Error(`no free port from ${FIRST} to ${FIRST + COUNT - 1} in 200 tries`);
}

/** @returns {Promise<boolean>} */
function isFree(/** @type {number} */ port) {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}
