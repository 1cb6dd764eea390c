/** The clients of ws-throughput.js. They say how many messages were taken in a while, or send at a rate. */
import { WebSocket } from "ws";

/** Answers of one connection that are waited for: enough to keep the server at work, and no more. */
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

/** As fast as it goes, with a bound on what is on its way; what the server has answered to is counted. */
async function flood({ port, connections, ms, perAnswer }) {
  const sockets = await connectAll(port, connections);
  let [counting, taken, all] = [false, 0, 0];
  for (const socket of sockets) {
    socket.on("message", () => {
      if (counting) taken += perAnswer;
      all += perAnswer;
      for (let n = 0; n < perAnswer; n++) socket.send(MESSAGE);
    });
    for (let n = 0; n < WINDOW * perAnswer; n++) socket.send(MESSAGE);
  }
  await new Promise((resolve) => setTimeout(resolve, ms / 3));
  counting = true;
  const start = performance.now();
  await new Promise((resolve) => setTimeout(resolve, ms));
  const perSecond = (taken * 1000) / (performance.now() - start);
  for (const socket of sockets) socket.terminate();
  return { perSecond, all };
}

/** So many a second, by sockets in turn, whatever the server does. */
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
