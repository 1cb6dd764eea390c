/** The clients of ws-throughput.js: they measure how many messages a server handles, or send at a fixed rate. */
import { WebSocket } from "ws";

/** Replies in flight per connection: enough to keep the server busy. */
const WINDOW = 2;
const MESSAGE = JSON.stringify({ type: "say", text: "hello, how are you?" });

const connect = (port) =>
  new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}`, { perMessageDeflate: false });
    socket.once("open", () => resolve(socket));
    socket.once("error", reject);
  });

async function connectAll(port, count) {
  const sockets = [];
  for (let done = 0; done < count; done += 50) {
    sockets.push(...(await Promise.all(Array.from({ length: Math.min(50, count - done) }, () => connect(port)))));
  }
  return sockets;
}

/** Sends as fast as possible with a bounded number of messages in flight, and counts the replies. */
async function flood({ port, connections, ms, perReply }) {
  const sockets = await connectAll(port, connections);
  let [counting, handled, all] = [false, 0, 0];
  for (const socket of sockets) {
    socket.on("message", () => {
      if (counting) handled += perReply;
      all += perReply;
      for (let n = 0; n < perReply; n++) socket.send(MESSAGE);
    });
    for (let n = 0; n < WINDOW * perReply; n++) socket.send(MESSAGE);
  }
  await new Promise((resolve) => setTimeout(resolve, ms / 3));
  counting = true;
  const start = performance.now();
  await new Promise((resolve) => setTimeout(resolve, ms));
  const perSecond = (handled * 1000) / (performance.now() - start);
  for (const socket of sockets) socket.terminate();
  return { perSecond, all };
}

/** Sends `perSecond` messages per second, from each socket in turn. */
async function trickle({ port, connections, ms, perSecond }) {
  const sockets = await connectAll(port, connections);
  process.send({ connected: true });
  const start = performance.now();
  let sent = 0;
  await new Promise((resolve) => {
    const timer = setInterval(() => {
      const passed = performance.now() - start;
      while (sent < (passed * perSecond) / 1000) sockets[sent++ % sockets.length].send(MESSAGE);
      if (passed < ms) return;
      clearInterval(timer);
      resolve();
    }, 1);
  });
  await new Promise((resolve) => setTimeout(resolve, 200));
  for (const socket of sockets) socket.terminate();
  return { sent };
}

process.on("message", async ({ how, ...what }) => process.send(await (how === "flood" ? flood : trickle)(what)));
