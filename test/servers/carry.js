/** One direction of the fault proxy: bytes wait in a queue, and the mode decides when and how they leave it. */
import { setImmediate as turn } from "node:timers/promises";

/** @typedef {import("node:net").Socket} Socket */
/** @typedef {import("./fault-proxy.js").Mode} Mode */

/**
 * The end of the stream waits in the queue like bytes do: a request that was on its way when its sender gave up still
 * arrives.
 * @param {Socket} from
 * @param {Socket} to
 * @param {object} how
 * @param {() => Mode} how.mode asked again for each piece
 * @param {() => void} how.finish ends `to`, after everything before was delivered
 * @param {() => void} [how.dropped] present in the direction that "drop-replies" is about
 */
export function carry(from, to, { mode, finish, dropped }) {
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
        // A receiver in this process gets its turn, or it would read them all at once.
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
