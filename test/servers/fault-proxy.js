/** A TCP proxy that harms what goes through it on demand. */
import { once } from "node:events";
import { connect, createServer } from "node:net";
import { carry } from "./carry.js";

/**
 * - `"pass"` hands everything on.
 * - `"stall"` accepts connections and holds the bytes of both directions; the next mode delivers them.
 * - `"drop-replies"` hands requests on and throws replies away.
 * - `"refuse"` closes every connection, those that are open and those that come.
 * - `"slice"` hands everything on in writes of one byte.
 * - `{ delayMs }` hands everything on so much later.
 * @typedef {"pass" | "stall" | "drop-replies" | "refuse" | "slice" | { delayMs: number }} Mode
 */

/** @typedef {Awaited<ReturnType<typeof startProxy>>} FaultProxy */
/** @typedef {ReturnType<typeof link>} Link */

/** Starts a proxy on a free port in front of another port of this machine. */
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
    // What is held for one side has to outlive the other.
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
    /** Where new connections lead. */
    get target() {
      return target;
    },
    set target(port) {
      target = port;
    },
    get mode() {
      return mode;
    },
    /** How many clients are connected. */
    get connections() {
      return [...links].filter(({ client }) => !client.destroyed).length;
    },
    /** Changes what happens to all bytes that are not delivered yet, on connections old and new. */
    set(/** @type {Mode} */ next) {
      mode = next;
      for (const joined of links) {
        if (mode === "refuse") joined.close();
        // TCP has no holes: a connection that lost a reply can only break, or later replies would answer the wrong
        // requests.
        else if (joined.lost && mode !== "drop-replies") joined.reset();
        else joined.wake();
      }
    },
    /** Breaks all connections with an RST. */
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
  const requests = carry(client, upstream, { mode, finish: () => upstream.end() });
  const replies = carry(upstream, client, {
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
    /** Whether a reply was thrown away. */
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
