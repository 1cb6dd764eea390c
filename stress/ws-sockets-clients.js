/** The clients of `ws-sockets.js`, in a separate process: the test measures the heap of the server. */
import { createRequire } from "node:module";
import { setTimeout as wait } from "node:timers/promises";
import { randomFrom } from "./random.js";

const { WebSocket } = createRequire(new URL("../integration/ws/package.json", import.meta.url))("ws");
const { port, addresses, users } = JSON.parse(process.argv[2] ?? "{}");
/** How a connection ends. `abort` ends it before it is open, and `dropped` makes the server do that. */
const PLANS = ["close", "close", "reset", "reset", "server closes", "server terminates", "flood", "abort", "dropped"];
/** Maximum number of connections that wait for a response. */
const MAX_CONNECTING = 100;

/** Clients that are not closed, and those of them that are open. */
const all = new Set();
const open = new Set();
let connecting = 0;
/** Number of clients by result. */
let seen = {};

const count = (/** @type {string} */ what) => (seen[what] = (seen[what] ?? 0) + 1);

function connect({ address, user, plan, frames }) {
  const headers = {
    ...(user === undefined ? {} : { "x-user": user }),
    ...(plan === "dropped" ? { "x-drop": "1" } : {}),
  };
  const socket = new WebSocket(`ws://127.0.0.1:${port}`, { localAddress: address, headers, perMessageDeflate: false });
  const client = { socket, plan, frames };
  let response = "none";
  let hasResponse = false;
  const gotResponse = () => {
    if (!hasResponse) connecting--;
    hasResponse = true;
  };
  all.add(client);
  connecting++;
  count("tried");
  socket.on("open", () => {
    if (response !== "none") count(`open after ${response}`);
    response = "open";
    gotResponse();
    open.add(client);
    for (let i = 0; i < frames; i++) socket.send(i % 2 ? Buffer.from("binary") : "text");
  });
  socket.on("unexpected-response", (request, message) => {
    response = String(message.statusCode);
    gotResponse();
    message.resume();
    message.on("close", () => request.destroy());
    closed();
  });
  socket.on("error", () => {});
  socket.on("close", (code) => {
    closed();
    if (response === "open" && plan === "flood") count(`flood ${code}`);
    if (response === "open" && plan === "server closes" && client.isEnding) count(`server closes ${code}`);
  });
  function closed() {
    if (!all.delete(client)) return;
    gotResponse();
    open.delete(client);
    count((plan === "abort" || plan === "dropped") && response === "none" ? "aborted" : response);
  }
  return client;
}

/** Ends a connection according to its plan. */
function end(client) {
  const { socket, plan } = client;
  open.delete(client);
  client.isEnding = true;
  if (plan === "reset") socket._socket.resetAndDestroy();
  else if (plan.startsWith("server")) socket.send(plan);
  // The server closes a flood.
  else if (plan !== "flood") socket.close();
}

const COMMANDS = {
  /** Opens and closes sockets at random, with at most `max` at once. */
  async churn({ sockets, max, steady, seed }) {
    const random = randomFrom(seed);
    const { whole, pick, once } = random;
    let maxSeen = 0;
    for (let left = sockets; left > 0; ) {
      // Alternate between many and few connections.
      const target = !steady && Math.floor(left / 1500) % 3 === 1 ? max / 4 : max;
      if (all.size < target && connecting < MAX_CONNECTING) {
        const plan = pick(PLANS);
        const few = plan.startsWith("server") ? 2 : 3;
        // Prefer low indexes, which makes some addresses and users reach their limit.
        const address = addresses[steady ? left % addresses.length : Math.min(whole(0, 19), whole(0, 19))];
        const user =
          once(5) || steady ? undefined : users[Math.min(whole(0, users.length - 1), whole(0, users.length - 1))];
        const client = connect({ address, user, plan, frames: plan === "flood" ? whole(4, 5) : whole(0, few) });
        if (plan === "abort") setTimeout(() => client.socket.terminate(), whole(0, 4));
        left--;
        maxSeen = Math.max(maxSeen, all.size);
      } else {
        const some = [...open];
        for (let i = Math.min(some.length, whole(1, 50)); i > 0 && all.size >= target; i--) end(pick(some));
        await wait(1);
      }
      if (once(20)) await new Promise(setImmediate);
    }
    await closeAll();
    return { maxSeen };
  },
  /** Opens all connections of the list, and keeps them open. */
  async fill({ list }) {
    for (const each of list) {
      while (connecting >= MAX_CONNECTING) await wait(1);
      connect({ ...each, plan: "close", frames: 0 });
    }
    while (connecting > 0) await wait(1);
    return { held: open.size };
  },
  async closeAll() {
    await closeAll();
    return {};
  },
};

/** Ends all connections. */
async function closeAll() {
  while (all.size > 0) {
    for (const client of [...open]) end(client);
    await wait(5);
  }
}

process.on("message", async (/** @type {any} */ { command, ...settings }) => {
  seen = {};
  const result = await COMMANDS[command](settings);
  process.send?.({ ...result, seen });
});
process.on("disconnect", () => process.exit());
process.send?.("ready");
