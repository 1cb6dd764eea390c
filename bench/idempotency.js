/** Measures `idempotent` of `sluice/express`: replays from memory without a network, and round trips on Redis. */
import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { Redis } from "ioredis";
import { startRedis } from "../test/servers/redis-server.js";
import { measureInChild } from "./measure-in-child.js";
import { goal, goalTable, ratios, spread, table } from "./report.js";
import { ms, repeats } from "./settings.js";

export const title = "Idempotency";

const KEYS = 1000;
const BATCH = 1000;
/** As many as a new process needs to optimise an asynchronous path. */
const MIN_BATCHES = 60;
const REDIS_REQUESTS = 500;
const BODY = { amount: 1200, currency: "EUR", customer: "cus_4711", note: "x".repeat(100) };
const RESPONSE = JSON.stringify({ id: "pay_1", ...BODY });

class StubRequest {
  method = "POST";
  originalUrl = "/payments?expand=customer";
  readableDidRead = true;
  body = BODY;
  socket = { remoteAddress: "10.0.0.1" };

  constructor(i) {
    this.headers = {
      host: "localhost",
      "content-type": "application/json",
      "content-length": "160",
      "idempotency-key": `8e03978e-40d5-43dd-bc93-${String(i).padStart(12, "0")}`,
      "x-user": `u${i % 100}`,
    };
  }
}

class StubResponse {
  headersSent = false;
  writableEnded = false;
  destroyed = false;
  statusCode = 200;
  headers = {};

  getHeader(name) {
    return this.headers[name];
  }

  getHeaders() {
    return this.headers;
  }

  setHeader(name, value) {
    this.headers[name] = value;
  }

  removeHeader(name) {
    delete this.headers[name];
  }

  once() {}

  end(body) {
    this.headersSent = true;
    this.writableEnded = true;
    this.body = body;
    this.resolve?.(this);
    return this;
  }
}

/** Sends a request, and resolves with its response. `handler` writes it if the request runs. */
function send(middleware, i, handler = pay) {
  return new Promise((resolve) => {
    const response = new StubResponse();
    response.resolve = resolve;
    middleware(new StubRequest(i), response, (error) => (error ? resolve(error) : handler(response)));
  });
}

function pay(response) {
  response.statusCode = 201;
  response.setHeader("content-type", "application/json");
  response.end(RESPONSE);
}

async function middlewareOn(store) {
  const { idempotent } = await import("../dist/express.js");
  const scope = ({ headers }) => headers["x-user"];
  return idempotent({ store, scope, replayLimit: "1000000000/s", deadlineMs: "20s" });
}

/** Functions that do one thing `BATCH` times. */
const variants = {
  async "one consumeSync"() {
    const { memoryRateLimiter } = await import("../dist/index.js");
    const limiter = memoryRateLimiter("1000000/s");
    const keys = Array.from({ length: KEYS }, (_, i) => `user:${i}`);
    return () => {
      for (let i = 0; i < BATCH; i++) globalThis.result = limiter.consumeSync(keys[i % KEYS]);
    };
  },
  /** What is hashed of a request: method, path, content type and body. */
  async hashing() {
    const encoder = new TextEncoder();
    const { method, originalUrl, headers } = new StubRequest(0);
    return () => {
      for (let i = 0; i < BATCH; i++) {
        const text = [method, originalUrl, headers["content-type"], JSON.stringify(BODY)].join("\n");
        globalThis.result = bytesToHex(sha256(encoder.encode(text)));
      }
    };
  },
  async "a replay"() {
    const { memoryIdempotencyStore } = await import("../dist/idempotency.js");
    const middleware = await middlewareOn(memoryIdempotencyStore());
    for (let i = 0; i < KEYS; i++) await send(middleware, i);
    return async () => {
      for (let i = 0; i < BATCH; i++) {
        const { statusCode, headers } = (globalThis.result = await send(middleware, i % KEYS));
        if (statusCode !== 201 || headers["Idempotent-Replayed"] !== "true") throw new Error("not a replay");
      }
    };
  },
  async "a first request"() {
    const { memoryIdempotencyStore } = await import("../dist/idempotency.js");
    const middleware = await middlewareOn(memoryIdempotencyStore({ maxEntries: 100_000 }));
    let next = 0;
    return async () => {
      for (let i = 0; i < BATCH; i++) globalThis.result = await send(middleware, next++);
    };
  },
};

/** CPU microseconds per call of one variant. */
export async function measure({ name }) {
  const batch = await variants[name]();
  await timeBatches(batch);
  return timeBatches(batch);
}

async function timeBatches(batch) {
  const start = performance.now();
  const before = process.cpuUsage();
  let batches = 0;
  while (batches < MIN_BATCHES || performance.now() - start < ms) {
    await batch();
    batches++;
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / (batches * BATCH);
}

/** Client commands per first request on Redis, before its handler and after it, and per replay. */
async function commandsPerRequest() {
  const server = await startRedis();
  const client = new Redis(server.port);
  try {
    const { redisIdempotencyStore } = await import("../dist/redis.js");
    const middleware = await middlewareOn(redisIdempotencyStore(client));
    const { sendCommand } = client;
    let commands = 0;
    client.sendCommand = function (...args) {
      commands++;
      return sendCommand.apply(this, args);
    };
    // The first call loads the script.
    await send(middleware, REDIS_REQUESTS);
    commands = 0;
    let before = 0;
    for (let i = 0; i < REDIS_REQUESTS; i++) {
      const start = commands;
      await send(middleware, i, (response) => {
        before += commands - start;
        pay(response);
      });
    }
    const after = commands - before;
    commands = 0;
    for (let i = 0; i < REDIS_REQUESTS; i++) await send(middleware, i);
    return [before, after, commands].map((count) => count / REDIS_REQUESTS);
  } finally {
    client.disconnect();
    await server.stop();
  }
}

export async function run(progress) {
  const times = Object.fromEntries(Object.keys(variants).map((name) => [name, []]));
  for (let repeat = 1; repeat <= repeats; repeat++) {
    progress(`repeat ${repeat} of ${repeats}`);
    for (const name of Object.keys(variants)) times[name].push(await measureInChild("idempotency", { name }));
  }
  progress("commands");
  const [before, after, replay] = await commandsPerRequest();
  const { "one consumeSync": one, hashing, "a replay": replays } = times;
  const withoutHashing = replays.map((value, i) => value - hashing[i]);
  return [
    table(
      ["sluice/express, memory", "CPU us", "to one consumeSync"],
      Object.entries(times).map(([name, values]) => [name, spread(values), spread(ratios(values, one))]),
    ),
    goalTable([
      goal("replay from memory, without hashing / one consumeSync", ratios(withoutHashing, one), "<=", 20, "x"),
      goal("replay from memory, without hashing", withoutHashing, "<=", 15, " us"),
      goal("Redis: round trips before the handler", [before], "<=", 1),
      goal("Redis: round trips after the handler", [after], "<=", 1),
      goal("Redis: round trips of a replay", [replay], "<=", 1),
    ]),
  ];
}
