/** Forwards one direction of the fault proxy. Bytes wait in a queue until the mode of the proxy releases them. */
import { setImmediate as turn } from "node:timers/promises";

/** @typedef {import("node:net").Socket} Socket */
/** @typedef {import("./fault-proxy.js").Mode} Mode */

/**
 * Forwards bytes from one socket to another. The end of the stream is queued like bytes: a request in flight still arrives
 * after its sender has disconnected.
 * @param {Socket} from
 * @param {Socket} to
 * @param {object} options
 * @param {() => Mode} options.mode called for each chunk
 * @param {() => void} options.finish ends `to` after all bytes are delivered
 * @param {() => void} [options.dropped] set for replies, which "drop-replies" discards
 */
export function forward(from, to, { mode, finish, dropped }) {
  /** @type {{ bytes: Buffer | undefined; since: number }[]} */
  const queue = [];
  let ended = false;
  let busy = false;
  /** @type {NodeJS.Timeout | undefined} */
  let timer;

  const write = (/** @type {Buffer} */ bytes) => new Promise((resolve) => to.write(bytes, resolve));

  async function deliver() {
    if (busy) return;
    busy = true;
    clearTimeout(timer);
    for (let next = queue[0]; next; next = queue[0]) {
      const now = mode();
      if (now === "stall" || now === "refuse") break;
      const waitMs = typeof now === "object" ? next.since + now.delayMs - performance.now() : 0;
      if (waitMs > 0) {
        timer = setTimeout(deliver, waitMs);
        break;
      }
      if (now === "slice" && next.bytes && next.bytes.length > 1) {
        const byte = next.bytes.subarray(0, 1);
        next.bytes = next.bytes.subarray(1);
        await write(byte);
        // Yield to a receiver in this process, which would otherwise read all bytes together.
        await turn();
        continue;
      }
      queue.shift();
      if (!next.bytes) finish();
      else if (now === "drop-replies" && dropped) dropped();
      else await write(next.bytes);
    }
    busy = false;
  }

  const push = (/** @type {Buffer | undefined} */ bytes) => {
    queue.push({ bytes, since: performance.now() });
    void deliver();
  };
  const end = () => {
    if (!ended) push(undefined);
    ended = true;
  };
  from.on("data", push);
  from.on("end", end);
  from.on("close", end);
  to.on("close", () => {
    queue.length = 0;
    clearTimeout(timer);
  });

  return { wake: () => void deliver() };
}
