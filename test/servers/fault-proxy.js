/** A TCP proxy that injects faults on demand. */
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { forward } from "./forward.js";

/**
 * - `"pass"` forwards everything.
 * - `"stall"` accepts connections and holds the bytes of both directions. The next mode delivers them.
 * - `"drop-replies"` forwards requests and discards replies.
 * - `"refuse"` closes open and new connections.
 * - `"slice"` forwards everything in writes of one byte.
 * - `{ delayMs }` forwards everything after a delay in ms.
 * @typedef {"pass" | "stall" | "drop-replies" | "refuse" | "slice" | { delayMs: number }} Mode
 */

/** @typedef {Awaited<ReturnType<typeof startProxy>>} FaultProxy */
/** @typedef {ReturnType<typeof link>} Link */

/** Starts a proxy on a free port in front of a local port. */
export async function startProxy(/** @type {number} */ targetPort) {
  /** @type {Mode} */
  let mode = "pass";
  let target = targetPort;
  /** @type {Set<Link>} */
  const links = new Set();

  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    client.on("error", () => {});
    if (mode === "refuse") return client.destroy();
    const joined = link(client, target, () => mode);
    links.add(joined);
    // Held bytes must outlive the socket that sent them.
    const { upstream } = joined;
    const gone = () => client.closed && upstream.closed && links.delete(joined);
    client.once("close", gone);
    upstream.once("close", gone);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  server.on("error", () => {});

  return {
    port: /** @type {import("node:net").AddressInfo} */ (server.address()).port,
    /** The target port of new connections. */
    get target() {
      return target;
    },
    set target(port) {
      target = port;
    },
    get mode() {
      return mode;
    },
    /** Number of connected clients. */
    get connections() {
      return [...links].filter(({ client }) => !client.destroyed).length;
    },
    /** Sets the mode of open and new connections, also for bytes not delivered yet. */
    set(/** @type {Mode} */ next) {
      mode = next;
      for (const joined of links) {
        if (mode === "refuse") joined.close();
        // A connection that lost a reply must be closed: later replies would match the wrong requests.
        else if (joined.lost && mode !== "drop-replies") joined.reset();
        else joined.wake();
      }
    },
    /** Resets all connections (RST). */
    reset() {
      for (const joined of links) joined.reset();
    },
    async stop() {
      for (const joined of links) joined.close();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A client and its connection to the target. */
function link(
  /** @type {import("node:net").Socket} */ client,
  /** @type {number} */ port,
  /** @type {() => Mode} */ mode,
) {
  const upstream = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
  upstream.on("error", () => {});
  let lost = false;
  const requests = forward(client, upstream, { mode, finish: () => upstream.end() });
  const replies = forward(upstream, client, {
    mode,
    finish: () => (upstream.errored ? client.resetAndDestroy() : client.end()),
    dropped: () => {
      lost = true;
    },
  });
  const both = (/** @type {(socket: import("node:net").Socket) => void} */ end) => {
    end(client);
    end(upstream);
  };
  const reset = () => both((socket) => socket.resetAndDestroy());
  return {
    client,
    upstream,
    /** Whether a reply was discarded. */
    get lost() {
      return lost;
    },
    wake() {
      requests.wake();
      replies.wake();
    },
    reset,
    close: () => both((socket) => socket.destroy()),
  };
}
