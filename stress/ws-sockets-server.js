/** The server of `ws-sockets.js`. Runs all checks and sends the claims, in a process whose heap has nothing else. */
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
/** Frames that one connection may send. The bucket does not refill during the run. */
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
    const first = await clients({ command: "churn", sockets: FIRST, max: FIRST, steady: true, seed });
    must(await server.isEmpty(), "not all of the first sockets were closed");
    const heapBefore = await minHeap();
    const rest = await clients({ command: "churn", sockets: SOCKETS - FIRST, max: AT_ONCE, seed: seed + 1 });
    must(await server.isEmpty(), `${counts.open} sockets are open at the end, ${server.keys()} keys are counted`);
    const heapAfter = await minHeap();
    const seen = sum(first.seen, rest.seen);
    yield {
      claim: "sockets: open at once",
      details: `${seen.tried} tried, ${counts.opened} opened, at most ${counts.maxOpen} at once, ${counts.maxPer.ip} of ${PER_ADDRESS} per address, ${counts.maxPer.public} of ${PER_USER} per user; seed ${seed}`,
      failures: found(),
    };

    const { open: opened = 0, 429: rejected = 0, aborted = 0, tried, ...others } = seen;
    const flooded = others["flood 1013"] ?? 0;
    must(opened + rejected + aborted === tried, `other results of ${tried}: ${JSON.stringify(others)}`);
    must(rejected > 0 && counts.rejected.ip > 0 && counts.rejected.public > 0, "no connection was rejected");
    // A client that disconnects before the response does not see it.
    must(
      rejected <= counts.responses[429] && counts.responses[429] <= rejected + aborted,
      `429 to ${counts.responses[429]}, seen by ${rejected}`,
    );
    must(counts.rejected.ip + counts.rejected.public === counts.responses[429], "onLimitExceeded for each rejection");
    // A client that disconnects during the decision gets a 500, which is never read.
    const { 429: _, 500: unread = 0, ...otherwise } = counts.responses;
    must(unread <= aborted, `500 to ${unread}, but only ${aborted} had disconnected`);
    must(Object.keys(otherwise).length === 0, `other responses: ${JSON.stringify(counts.responses)}`);
    const strange = Object.keys(others).filter((what) => what !== "flood 1013" && what !== "server closes 1000");
    must(strange.length === 0, `clients saw ${strange}`);
    must(flooded > 0 && counts.floods >= flooded, `${counts.floods} floods closed, seen by ${flooded}`);
    yield {
      claim: "sockets: rejected before the upgrade",
      details: `${rejected} clients got 429 and ${tried - opened - rejected - aborted} something else; ${counts.rejected.ip} for the address, ${counts.rejected.public} for the user; ${aborted} disconnected before the response, ${counts.dropped} of them closed by the server; ${flooded} floods closed with 1013`,
      failures: found(),
    };

    const filled = await fill(clients, server, must);
    yield { claim: "sockets: released exactly once", details: filled.details, failures: found() };

    const heapAtLast = await minHeap();
    const percent = (/** @type {number} */ part, /** @type {number} */ whole) =>
      `${((100 * part) / whole).toFixed(1)} %`;
    for (const heap of [heapAfter, heapAtLast]) {
      must(heap <= HEAP_MAY_GROW * heapBefore, `the heap grew to ${percent(heap, heapBefore)}`);
    }
    const sizes = [heapBefore, heapAfter, heapAtLast].map(
      (heap) => `${Math.round(heap / 1024)} KiB (${percent(heap, heapBefore)})`,
    );
    const seconds = Math.round((performance.now() - start) / 1000);
    yield {
      claim: "sockets: heap",
      details: `${sizes[0]} after ${FIRST} sockets, ${sizes[1]} after ${SOCKETS}, ${sizes[2]} after ${SOCKETS + filled.tried}; ${seconds} s`,
      failures: found(),
    };
  } finally {
    clients.stop();
    await server.stop();
  }
}

/** Checks that each address and user can open exactly its limit again. */
async function fill(clients, server, must) {
  const { counts } = server;
  const full = addresses.flatMap((address) => Array.from({ length: PER_ADDRESS }, () => ({ address })));
  const halves = [users.slice(0, users.length / 2), users.slice(users.length / 2)].map((some) =>
    some.flatMap((user, i) =>
      Array.from({ length: PER_USER }, (_, j) => ({ user, address: addresses[(i + j) % addresses.length] })),
    ),
  );
  const lines = [];
  let tried = 0;
  for (const [kind, list] of [
    ["ip", full],
    ["public", halves[0]],
    ["public", halves[1]],
  ]) {
    const before = counts.rejected[kind];
    const { held } = await clients({ command: "fill", list });
    must(held === list.length, `${held} of ${list.length} could be opened again`);
    must(counts.rejected[kind] === before, `${counts.rejected[kind] - before} were rejected`);
    const names = new Set(list.map(({ user, address }) => user ?? address));
    const more = [...names].map((name) => (kind === "ip" ? { address: name } : { user: name, address: addresses[19] }));
    const { held: still, seen } = await clients({ command: "fill", list: more });
    must(still === held && seen[429] === names.size, `${still - held} more than the limit were opened`);
    must(counts.rejected[kind] === before + names.size, "rejected for another reason");
    tried += list.length + names.size;
    lines.push(
      `${held} opened again by ${names.size} ${kind === "ip" ? "addresses" : "users"}, ${seen[429]} more rejected`,
    );
    await clients({ command: "closeAll" });
    must(await server.isEmpty(), `${counts.open} sockets are open at the end`);
  }
  return { details: lines.join("; "), tried };
}

/** Starts a guarded server with counts of its own, independent of the guard. */
async function startServer(/** @type {number} */ seed) {
  const { WebSocketServer } = createRequire(new URL("../integration/ws/package.json", import.meta.url))("ws");
  const random = randomFrom(seed);
  const failures = [];
  const fail = (/** @type {string} */ text) => failures.length < 20 && failures.push(text);
  const limits = { ip: PER_ADDRESS, public: PER_USER };
  const counts = {
    open: 0,
    opened: 0,
    maxOpen: 0,
    maxPer: { ip: 0, public: 0 },
    rejected: { ip: 0, public: 0 },
    responses: {},
    floods: 0,
    dropped: 0,
  };
  /** Open connections and pending upgrades by key. */
  const [open, pending] = [new Map(), new Map()];
  const add = (/** @type {Map<string, number>} */ to, /** @type {string[]} */ names, /** @type {number} */ one) => {
    for (const name of names) {
      const now = (to.get(name) ?? 0) + one;
      if (now < 0) fail(`${name} has ${now}`);
      if (now === 0) to.delete(name);
      else to.set(name, now);
    }
  };
  const keysOf = (/** @type {import("node:http").IncomingMessage} */ { socket, headers }) => [
    `ip:${socket.remoteAddress}`,
    ...(headers["x-user"] ? [`public:user:${headers["x-user"]}`] : []),
  ];
  const kindOf = (/** @type {string} */ name) => /** @type {"ip" | "public"} */ (name.slice(0, name.indexOf(":")));

  const http = createServer();
  const sockets = new WebSocketServer({ server: http });
  const guard = guardWs(sockets, {
    // Asynchronous: the client may disconnect meanwhile.
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
      counts.rejected[kindOf(key)]++;
      const others = (open.get(key) ?? 0) + (pending.get(key) ?? 0) - 1;
      if (limit !== limits[kindOf(key)] || observed !== limit + 1) fail(`${key} rejected at ${observed} of ${limit}`);
      if (others < limit) fail(`${key} rejected with only ${others} connections`);
    },
    onError: (error) => /ECONNRESET|EPIPE/.test(error?.code) || fail(`onError got ${error?.stack ?? error}`),
  });

  // Each client is pending, then open or rejected, and then closed, as seen from its TCP socket.
  const verify = sockets.options.verifyClient;
  sockets.options.verifyClient = (info, callback) => {
    const { req } = info;
    const names = keysOf(req);
    let [isPending, isDecided] = [true, false];
    const endPending = () => {
      if (isPending) add(pending, names, -1);
      isPending = false;
    };
    add(pending, names, 1);
    // A client that disconnects stays pending until the decision.
    req.socket.once("close", () => isDecided && endPending());
    req.endPending = endPending;
    verify(info, (isAdmitted, code, ...rest) => {
      isDecided = true;
      if (!isAdmitted) {
        counts.responses[code] = (counts.responses[code] ?? 0) + 1;
        req.endPending = () => fail("upgraded and rejected");
        endPending();
      }
      callback(isAdmitted, code, ...rest);
      if (req.socket.closed) endPending();
    });
  };
  sockets.on("connection", (socket, request) => {
    const names = keysOf(request);
    request.endPending();
    add(open, names, 1);
    counts.opened++;
    counts.maxOpen = Math.max(counts.maxOpen, ++counts.open);
    for (const name of names) {
      const [kind, now] = [kindOf(name), open.get(name)];
      counts.maxPer[kind] = Math.max(counts.maxPer[kind], now);
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
    keys: () => open.size + pending.size,
    /** Waits until all sockets are closed. Returns false after a timeout. */
    async isEmpty() {
      const alive = () => new Promise((resolve) => http.getConnections((_, many) => resolve(many)));
      for (let i = 0; i < 200; i++) {
        // The close event of a socket follows a moment after the server has stopped counting it.
        if ((await alive()) + counts.open + open.size + pending.size + sockets.clients.size === 0) return true;
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

/** Starts the process of the clients. Returns a function that sends it a command and returns the result. */
async function startClients(/** @type {number} */ port) {
  const settings = JSON.stringify({ port, addresses, users });
  const child = fork(fileURLToPath(new URL("ws-sockets-clients.js", import.meta.url)), [settings]);
  const next = () =>
    new Promise((resolve, reject) => {
      const ended = (/** @type {number | null} */ code) => reject(new Error(`the clients exited with ${code}`));
      child.once("exit", ended);
      child.once("message", (message) => {
        child.off("exit", ended);
        resolve(message);
      });
    });
  await next();
  const run = (/** @type {any} */ command) => {
    child.send(command);
    return /** @type {Promise<any>} */ (next());
  };
  return Object.assign(run, { stop: () => child.kill() });
}

/** The heap in use after garbage collection: the minimum of several collections. */
async function minHeap() {
  let min = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 10; i++) {
    await wait(50);
    globalThis.gc?.();
    min = Math.min(min, process.memoryUsage().heapUsed);
  }
  return min;
}

const sum = (/** @type {Record<string, number>} */ a, /** @type {Record<string, number>} */ b) =>
  Object.fromEntries(Object.keys({ ...a, ...b }).map((name) => [name, (a[name] ?? 0) + (b[name] ?? 0)]));

process.on("disconnect", () => process.exit());
for await (const claim of claims(Number(process.argv[2]))) process.send?.(claim);
process.disconnect();
