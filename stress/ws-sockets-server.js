/** The server of `ws-sockets.js`. Makes every check and tells the claims, in a process whose heap has nothing else. */
import { fork } from "node:child_process";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { guardWs } from "../dist/ws.js";
import { randomFrom } from "./random.js";

const SOCKETS = 10_000;
const FIRST = 1000;
const AT_ONCE = 4000;
const PER_ADDRESS = 200;
const PER_USER = 8;
/** What one connection may send. It never gets another one while this runs. */
const FRAMES = 3;
const addresses = Array.from({ length: 20 }, (_, i) => `127.0.0.${i + 1}`);
const users = Array.from({ length: 500 }, (_, i) => `u${i}`);
const HEAP_MAY_GROW = 1.05;

async function* claims(/** @type {number} */ seed) {
  const start = performance.now();
  const server = await startServer(seed);
  const { failures, counts } = server;
  const clients = await startClients(server.port);
  /** The failures since the last claim. */
  const found = (/** @type {string[]} */ ...more) =>
    [...failures.splice(0), ...more].map((text) => `${text} (SLUICE_SEED=${seed})`);
  const must = (/** @type {boolean} */ holds, /** @type {string} */ text) => holds || failures.push(text);
  try {
    const first = await clients({ command: "churn", sockets: FIRST, most: FIRST, steady: true, seed });
    must(await server.isEmpty(), "not all of the first sockets were closed");
    const heapBefore = await leastHeap();
    const rest = await clients({ command: "churn", sockets: SOCKETS - FIRST, most: AT_ONCE, seed: seed + 1 });
    must(await server.isEmpty(), `${counts.open} sockets are open at the end, ${server.named()} names are counted`);
    const heapAfter = await leastHeap();
    const seen = sum(first.seen, rest.seen);
    yield {
      claim: "sockets: open at once",
      figures: `${seen.tried} tried, ${counts.opened} opened, at most ${counts.mostOpen} at once, ${counts.mostOf.ip} of ${PER_ADDRESS} of an address, ${counts.mostOf.public} of ${PER_USER} of a user; seed ${seed}`,
      failures: found(),
    };

    const { open: opened = 0, 429: refused = 0, aborted = 0, tried, ...others } = seen;
    const flooded = others["flood 1013"] ?? 0;
    must(opened + refused + aborted === tried, `of ${tried} others had ${JSON.stringify(others)}`);
    must(refused > 0 && counts.refused.ip > 0 && counts.refused.public > 0, "nobody was refused");
    // Who is gone before the answer does not see it.
    must(
      refused <= counts.answered[429] && counts.answered[429] <= refused + aborted,
      `429 to ${counts.answered[429]}, seen by ${refused}`,
    );
    must(counts.refused.ip + counts.refused.public === counts.answered[429], "a hook for each that is refused");
    // Who was gone while it was decided is refused by an answer that nobody reads.
    const { 429: _, 500: unread = 0, ...otherwise } = counts.answered;
    must(unread <= aborted, `500 to ${unread}, and only ${aborted} were gone`);
    must(Object.keys(otherwise).length === 0, `answered with ${JSON.stringify(counts.answered)}`);
    const strange = Object.keys(others).filter((what) => what !== "flood 1013" && what !== "server closes 1000");
    must(strange.length === 0, `clients saw ${strange}`);
    must(flooded > 0 && counts.floods >= flooded, `${counts.floods} floods ended, seen by ${flooded}`);
    yield {
      claim: "sockets: refused before the upgrade",
      figures: `${refused} clients saw 429 and ${tried - opened - refused - aborted} something else; ${counts.refused.ip} for the address, ${counts.refused.public} for the user; ${aborted} gone before the answer, ${counts.dropped} of them closed by the server; ${flooded} floods closed with 1013`,
      failures: found(),
    };

    const filled = await fill(clients, server, must);
    yield { claim: "sockets: released exactly once", figures: filled.figures, failures: found() };

    const heapAtLast = await leastHeap();
    const percent = (/** @type {number} */ part, /** @type {number} */ whole) =>
      `${((100 * part) / whole).toFixed(1)} %`;
    for (const heap of [heapAfter, heapAtLast]) {
      must(heap <= HEAP_MAY_GROW * heapBefore, `the heap grew to ${percent(heap, heapBefore)}`);
    }
    const told = [heapBefore, heapAfter, heapAtLast].map(
      (heap) => `${Math.round(heap / 1024)} KiB (${percent(heap, heapBefore)})`,
    );
    const seconds = Math.round((performance.now() - start) / 1000);
    yield {
      claim: "sockets: heap",
      figures: `${told[0]} after ${FIRST} sockets, ${told[1]} after ${SOCKETS}, ${told[2]} after ${SOCKETS + filled.tried}; ${seconds} s`,
      failures: found(),
    };
  } finally {
    clients.stop();
    await server.stop();
  }
}

/** Afterwards everybody has the whole limit again, and not one more. */
async function fill(clients, server, must) {
  const { counts } = server;
  const full = addresses.flatMap((address) => Array.from({ length: PER_ADDRESS }, () => ({ address })));
  const halves = [users.slice(0, users.length / 2), users.slice(users.length / 2)].map((some) =>
    some.flatMap((user, i) =>
      Array.from({ length: PER_USER }, (_, j) => ({ user, address: addresses[(i + j) % addresses.length] })),
    ),
  );
  const told = [];
  let tried = 0;
  for (const [kind, list] of [
    ["ip", full],
    ["public", halves[0]],
    ["public", halves[1]],
  ]) {
    const before = counts.refused[kind];
    const { held } = await clients({ command: "fill", list });
    must(held === list.length, `${held} of ${list.length} could be opened again`);
    must(counts.refused[kind] === before, `${counts.refused[kind] - before} had no room`);
    const names = new Set(list.map(({ user, address }) => user ?? address));
    const more = [...names].map((name) => (kind === "ip" ? { address: name } : { user: name, address: addresses[19] }));
    const { held: still, seen } = await clients({ command: "fill", list: more });
    must(still === held && seen[429] === names.size, `${still - held} more than the limit were opened`);
    must(counts.refused[kind] === before + names.size, "refused for something else");
    tried += list.length + names.size;
    told.push(
      `${held} opened again by ${names.size} ${kind === "ip" ? "addresses" : "users"}, ${seen[429]} more refused`,
    );
    await clients({ command: "settle" });
    must(await server.isEmpty(), `${counts.open} sockets are open at the end`);
  }
  return { figures: told.join("; "), tried };
}

/** A server with a guard, and a count of its own that knows nothing of the guard's. */
async function startServer(/** @type {number} */ seed) {
  const { WebSocketServer } = createRequire(new URL("../integration/ws/package.json", import.meta.url))("ws");
  const random = randomFrom(seed);
  const failures = [];
  const fail = (/** @type {string} */ text) => failures.length < 20 && failures.push(text);
  const limits = { ip: PER_ADDRESS, public: PER_USER };
  const counts = {
    open: 0,
    opened: 0,
    mostOpen: 0,
    mostOf: { ip: 0, public: 0 },
    refused: { ip: 0, public: 0 },
    answered: {},
    floods: 0,
    dropped: 0,
  };
  /** How many of a name are open, and how many have asked. */
  const [open, asking] = [new Map(), new Map()];
  const add = (/** @type {Map<string, number>} */ to, /** @type {string[]} */ names, /** @type {number} */ one) => {
    for (const name of names) {
      const now = (to.get(name) ?? 0) + one;
      if (now < 0) fail(`${name} has ${now}`);
      if (now === 0) to.delete(name);
      else to.set(name, now);
    }
  };
  const namesOf = (/** @type {import("node:http").IncomingMessage} */ { socket, headers }) => [
    `ip:${socket.remoteAddress}`,
    ...(headers["x-user"] ? [`public:user:${headers["x-user"]}`] : []),
  ];
  const kindOf = (/** @type {string} */ name) => /** @type {"ip" | "public"} */ (name.slice(0, name.indexOf(":")));

  const http = createServer();
  const sockets = new WebSocketServer({ server: http });
  const guard = guardWs(sockets, {
    // Who somebody is may take a while to find out, and then they may be gone.
    async data(request) {
      if (request.headers["x-drop"]) {
        request.socket.destroy();
        counts.dropped++;
        await wait(1);
      }
      while (random.once(2)) await new Promise(setImmediate);
      const userId = request.headers["x-user"];
      return userId ? { userId } : undefined;
    },
    maxOpenPerAddress: PER_ADDRESS,
    maxOpenPerUser: PER_USER,
    connection: { capacity: FRAMES, tokensPerSecond: 0.001 },
    onExceeded: "close",
    onLimitExceeded({ type, key, limit, observed }) {
      if (type === "rate") counts.floods++;
      if (type !== "connections") return;
      counts.refused[kindOf(key)]++;
      const most = (open.get(key) ?? 0) + (asking.get(key) ?? 0) - 1;
      if (limit !== limits[kindOf(key)] || observed !== limit + 1) fail(`${key} refused at ${observed} of ${limit}`);
      if (most < limit) fail(`${key} refused, and only ${most} were there`);
    },
    onError: (error) => /ECONNRESET|EPIPE/.test(error?.code) || fail(`onError heard ${error?.stack ?? error}`),
  });

  // Everybody asks, then is open or refused, and then is gone: all of it seen from the socket below.
  const verify = sockets.options.verifyClient;
  sockets.options.verifyClient = (info, answer) => {
    const { req } = info;
    const names = namesOf(req);
    let [isAsking, isAnswered] = [true, false];
    const hasAsked = () => {
      if (isAsking) add(asking, names, -1);
      isAsking = false;
    };
    add(asking, names, 1);
    // Who is gone is still asked about until there is an answer.
    req.socket.once("close", () => isAnswered && hasAsked());
    req.hasAsked = hasAsked;
    verify(info, (isAdmitted, code, ...rest) => {
      isAnswered = true;
      if (!isAdmitted) {
        counts.answered[code] = (counts.answered[code] ?? 0) + 1;
        req.hasAsked = () => fail("upgraded and refused");
        hasAsked();
      }
      answer(isAdmitted, code, ...rest);
      if (req.socket.closed) hasAsked();
    });
  };
  sockets.on("connection", (socket, request) => {
    const names = namesOf(request);
    request.hasAsked();
    add(open, names, 1);
    counts.opened++;
    counts.mostOpen = Math.max(counts.mostOpen, ++counts.open);
    for (const name of names) {
      const [kind, now] = [kindOf(name), open.get(name)];
      counts.mostOf[kind] = Math.max(counts.mostOf[kind], now);
      if (now > limits[kind]) fail(`${name} has ${now} open`);
    }
    request.socket.once("close", () => {
      add(open, names, -1);
      counts.open--;
    });
    let handled = 0;
    guard.attach(socket, request, (frame) => {
      if (++handled > FRAMES) fail(`${handled} frames were handled`);
      if (frame === "server closes") socket.close(1000);
      else if (frame === "server terminates") socket.terminate();
    });
  });
  await new Promise((resolve) => http.listen({ port: 0, host: "127.0.0.1", backlog: 4096 }, () => resolve(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (http.address());

  return {
    port,
    failures,
    counts,
    named: () => open.size + asking.size,
    /** Whether all sockets are gone, or soon will be. */
    async isEmpty() {
      const alive = () => new Promise((resolve) => http.getConnections((_, many) => resolve(many)));
      for (let i = 0; i < 200; i++) {
        // A socket is told to be closed a moment after the server has ceased to count it.
        if ((await alive()) + counts.open + open.size + asking.size + sockets.clients.size === 0) return true;
        await wait(50);
      }
      return false;
    },
    async stop() {
      for (const socket of sockets.clients) socket.terminate();
      sockets.close();
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
}

/** The process of the clients: does what it is told, and tells what came of it. */
async function startClients(/** @type {number} */ port) {
  const settings = JSON.stringify({ port, addresses, users });
  const child = fork(fileURLToPath(new URL("ws-sockets-clients.js", import.meta.url)), [settings]);
  const next = () =>
    new Promise((resolve, reject) => {
      const ended = (/** @type {number | null} */ code) => reject(new Error(`the clients ended with ${code}`));
      child.once("exit", ended);
      child.once("message", (message) => {
        child.off("exit", ended);
        resolve(message);
      });
    });
  await next();
  const tell = (/** @type {any} */ command) => {
    child.send(command);
    return /** @type {Promise<any>} */ (next());
  };
  return Object.assign(tell, { stop: () => child.kill() });
}

/** What is in use when nothing is left to collect: the least after several collections, with time for what they free. */
async function leastHeap() {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 10; i++) {
    await wait(50);
    globalThis.gc?.();
    least = Math.min(least, process.memoryUsage().heapUsed);
  }
  return least;
}

function sum(/** @type {Record<string, number>} */ one, /** @type {Record<string, number>} */ other) {
  const all = { ...one };
  for (const [what, many] of Object.entries(other)) all[what] = (all[what] ?? 0) + many;
  return all;
}

process.on("disconnect", () => process.exit());
for await (const claim of claims(Number(process.argv[2]))) process.send?.(claim);
process.disconnect();
