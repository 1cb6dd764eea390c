/** The `ws` servers of ws-throughput.js: one per variant, all in one process. */
import { Redis } from "ioredis";
import { WebSocketServer } from "ws";
import { createLimiter, memoryRateLimiter, memoryStore } from "../dist/index.js";
import { redisRateLimiter } from "../dist/redis.js";
import { guardWs, jsonType, perUserKey } from "../dist/ws.js";

/** A limit that is never reached. */
const ample = (name) => ({ capacity: 1e9, tokensPerSecond: 1e6, name });
const store = memoryStore();
const types = { typeOf: jsonType(), types: ["say"] };
const guards = {
  "no guard": undefined,
  "guard, its connection's own bucket": { connection: ample() },
  "guard, memory": { connection: ample(), limits: { limiter: memoryRateLimiter(ample()) } },
  "guard, memory, types": { connection: ample(), ...types, limits: { limiter: memoryRateLimiter(ample()) } },
  "guard, memory, types, two limits": {
    connection: ample(),
    ...types,
    limits: [
      { limiter: createLimiter({ store, policy: ample("user") }), key: perUserKey },
      { limiter: createLimiter({ store, policy: ample("type") }) },
    ],
  },
};

/** The handler of a minimal application: parses each message, and replies to each or to every 64th. */
function replyingHandler(socket, echo) {
  let count = 0;
  return (text) => {
    JSON.parse(text);
    count++;
    if (echo) socket.send(text);
    else if (count % 64 === 0) socket.send("64");
  };
}

const ports = {};
for (const [name, options] of Object.entries(guards)) {
  for (const echo of [false, true]) {
    const wss = new WebSocketServer({ port: 0, host: "127.0.0.1", perMessageDeflate: false });
    const guard = options && guardWs(wss, options);
    wss.on("connection", (socket, request) => {
      const handle = replyingHandler(socket, echo);
      if (guard) guard.attach(socket, request, handle);
      else socket.on("message", (data) => handle(String(data)));
    });
    await new Promise((resolve) => wss.on("listening", resolve));
    ports[`${name}/${echo ? "echo" : "one way"}`] = wss.address().port;
  }
}

if (process.env.REDIS_URL) {
  const redis = new Redis(process.env.REDIS_URL);
  const wss = new WebSocketServer({ port: 0, host: "127.0.0.1", perMessageDeflate: false });
  const guarded = [];
  const pings = [];
  const guard = guardWs(wss, { limits: { limiter: redisRateLimiter(redis, ample("frames")) } });
  wss.on("connection", (socket, request) => {
    // Registered before the guard's listener.
    let arrived = [];
    socket.on("message", () => arrived.push(performance.now()));
    guard.attach(socket, request, () => guarded.push(performance.now() - arrived.shift()));
    socket.on("close", () => {
      arrived = [];
    });
  });
  await new Promise((resolve) => wss.on("listening", resolve));
  ports.redis = wss.address().port;
  let timer;
  process.on("message", async (message) => {
    if (message === "start") {
      guarded.length = pings.length = 0;
      timer = setInterval(async () => {
        const start = performance.now();
        await redis.ping();
        pings.push(performance.now() - start);
      }, 2);
    }
    if (message === "stop") {
      clearInterval(timer);
      process.send({ guarded, pings });
    }
  });
}

process.on("message", (message) => {
  if (message !== "cpu") return;
  const { user, system } = process.cpuUsage();
  process.send({ cpuUs: user + system });
});
process.send({ ports });
