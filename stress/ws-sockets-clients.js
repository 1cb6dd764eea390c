/** The clients of `ws-sockets.js`, in a process of their own so that the heap of the server is the server's alone. */
import { createRequire } from "node:module";
import { setTimeout as wait } from "node:timers/promises";
import { randomFrom } from "./random.js";

const { WebSocket } = createRequire(new URL("../integration/ws/package.json", import.meta.url))("ws");
const { port, addresses, users } = JSON.parse(process.argv[2] ?? "{}");
/** How each may end; `abort` does so before it is open, and `dropped` asks the server to. */
const PLANS = ["close", "close", "reset", "reset", "server closes", "server terminates", "flood", "abort", "dropped"];
/** A connection has to be answered; so many wait for that at once. */
const CONNECTING = 100;

/** All that are not gone, and those of them that are open. */
const all = new Set();
const open = new Set();
let connecting = 0;
/** How many came to what. */
let seen = {};

const count = (/** @type {string} */ what) => (seen[what] = (seen[what] ?? 0) + 1);

function connect({ address, user, plan, frames }) {
  const headers = {
    ...(user === undefined ? {} : { "x-user": user }),
    ...(plan === "dropped" ? { "x-drop": "1" } : {}),
  };
  const socket = new WebSocket(`ws://127.0.0.1:${port}`, { localAddress: address, headers, perMessageDeflate: false });
  const client = { socket, plan, frames };
  let answer = "nothing";
  let isAnswered = false;
  const answered = () => {
    if (!isAnswered) connecting--;
    isAnswered = true;
  };
  all.add(client);
  connecting++;
  count("tried");
  socket.on("open", () => {
    if (answer !== "nothing") count(`open after ${answer}`);
    answer = "open";
    answered();
    open.add(client);
    for (let i = 0; i < frames; i++) socket.send(i % 2 ? Buffer.from("binary") : "text");
  });
  socket.on("unexpected-response", (request, response) => {
    answer = String(response.statusCode);
    answered();
    response.resume();
    response.on("close", () => request.destroy());
    gone();
  });
  socket.on("error", () => {});
  socket.on("close", (code) => {
    gone();
    if (answer === "open" && plan === "flood") count(`flood ${code}`);
    if (answer === "open" && plan === "server closes" && client.isEnding) count(`server closes ${code}`);
  });
  function gone() {
    if (!all.delete(client)) return;
    answered();
    open.delete(client);
    count((plan === "abort" || plan === "dropped") && answer === "nothing" ? "aborted" : answer);
  }
  return client;
}

/** Ends one as it was planned. */
function end(client) {
  const { socket, plan } = client;
  open.delete(client);
  client.isEnding = true;
  if (plan === "reset") socket._socket.resetAndDestroy();
  else if (plan.startsWith("server")) socket.send(plan);
  // Whoever floods waits for the server.
  else if (plan !== "flood") socket.close();
}

const COMMANDS = {
  /** Opens and closes so many at random, and never has more than `most` at once. */
  async churn({ sockets, most, steady, seed }) {
    const random = randomFrom(seed);
    const { whole, pick, once } = random;
    let mostSeen = 0;
    for (let left = sockets; left > 0; ) {
      // As many as there may be, then few, and again.
      const target = !steady && Math.floor(left / 1500) % 3 === 1 ? most / 4 : most;
      if (all.size < target && connecting < CONNECTING) {
        const plan = pick(PLANS);
        const few = plan.startsWith("server") ? 2 : 3;
        // The first of them are chosen more often, so that some have no room.
        const address = addresses[steady ? left % addresses.length : Math.min(whole(0, 19), whole(0, 19))];
        const user =
          once(5) || steady ? undefined : users[Math.min(whole(0, users.length - 1), whole(0, users.length - 1))];
        const client = connect({ address, user, plan, frames: plan === "flood" ? whole(4, 5) : whole(0, few) });
        if (plan === "abort") setTimeout(() => client.socket.terminate(), whole(0, 4));
        left--;
        mostSeen = Math.max(mostSeen, all.size);
      } else {
        const some = [...open];
        for (let i = Math.min(some.length, whole(1, 50)); i > 0 && all.size >= target; i--) end(pick(some));
        await wait(1);
      }
      if (once(20)) await new Promise(setImmediate);
    }
    await settled();
    return { mostSeen };
  },
  /** Opens all of the list, and keeps them. */
  async fill({ list }) {
    for (const each of list) {
      while (connecting >= CONNECTING) await wait(1);
      connect({ ...each, plan: "close", frames: 0 });
    }
    while (connecting > 0) await wait(1);
    return { held: open.size };
  },
  async settle() {
    await settled();
    return {};
  },
};

/** Ends all that are left. */
async function settled() {
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
