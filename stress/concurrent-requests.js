/**
 * Limits Express, Fastify, Hono, `node:http` and a `fetch` handler to 5 concurrent requests per client on one Redis, and
 * sends 2000 requests to each: some throw, some stream, some are aborted by the client, over connections that are kept
 * alive. The handlers count what is in flight. SLUICE_SCALE multiplies the number of requests.
 */
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { serve } from "@hono/node-server";
import express from "express";
import Fastify from "fastify";
import { Hono } from "hono";
import { stream } from "hono/streaming";
import { Redis } from "ioredis";
import { rateLimit as limitExpress } from "../dist/express.js";
import { rateLimit as limitFastify } from "../dist/fastify.js";
import { rateLimit as limitFetch } from "../dist/fetch.js";
import { rateLimit as limitHono } from "../dist/hono.js";
import { concurrency } from "../dist/index.js";
import { rateLimit as limitNode } from "../dist/node.js";
import { redisRateLimiter } from "../dist/redis.js";
import { startRedis } from "../test/servers/redis-server.js";
import { stepsOf } from "./steps.js";

const REQUESTS = stepsOf(2000);
const LIMIT = 5;
/** Requests that the client has in flight. */
const CALLERS = 20;
const POLICY = concurrency(LIMIT, { leaseMs: "30s" });
const CHUNKS = 3;

/** What the handlers of one server have in flight. */
class InFlight {
  now = 0;
  most = 0;

  /** Runs a handler. It is in flight until it has ended; where the end of a stream can't be seen, until its client leaves. */
  async run(/** @type {() => Promise<void>} */ work, /** @type {Promise<unknown> | undefined} */ disconnected) {
    this.most = Math.max(this.most, ++this.now);
    let isCounted = true;
    const end = () => {
      if (isCounted) this.now--;
      isCounted = false;
    };
    void disconnected?.then(end);
    await work().finally(end);
  }
}

const work = () => sleep(Math.random() * 4);

/**
 * The handler of every server. `write` sends one chunk of a stream.
 * @param {InFlight} inFlight @param {string} path @param {() => unknown} [write] @param {Promise<unknown>} [disconnected]
 */
async function handle(inFlight, path, write = () => {}, disconnected) {
  await inFlight.run(async () => {
    await work();
    if (path === "/throw") throw new Error("on purpose");
    if (path !== "/stream") return;
    for (let i = 0; i < CHUNKS; i++) {
      await write();
      await work();
    }
  }, disconnected);
}

const aborted = ({ signal }) => new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));

/** @type {Record<string, (limiter: any, inFlight: InFlight) => Promise<{ port: number, close(): unknown }>>} */
const servers = {
  async express(limiter, inFlight) {
    const app = express();
    app.use(limitExpress({ limiter }));
    app.use(async (request, response, next) => {
      try {
        await handle(inFlight, request.path, () => response.write("chunk"));
        response.end("ok");
      } catch (error) {
        next(error);
      }
    });
    app.use((_error, _request, response, _next) => response.status(500).end());
    const server = app.listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    return listening(server);
  },
  async node(limiter, inFlight) {
    const limited = limitNode({ limiter })(async (request, response) => {
      try {
        await handle(inFlight, request.url, () => response.write("chunk"));
        response.end("ok");
      } catch {
        response.writeHead(500).end();
      }
    });
    const server = createServer(limited).listen(0, "127.0.0.1");
    await new Promise((resolve) => server.once("listening", resolve));
    return listening(server);
  },
  async fastify(limiter, inFlight) {
    const app = Fastify({ forceCloseConnections: true });
    app.addHook("onRequest", limitFastify({ limiter }));
    app.get("/*", async (request, reply) => {
      if (request.url !== "/stream") {
        await handle(inFlight, request.url);
        return "ok";
      }
      reply.hijack();
      reply.raw.writeHead(200);
      await handle(inFlight, request.url, () => reply.raw.write("chunk")).catch(() => {});
      reply.raw.end();
    });
    await app.listen({ port: 0, host: "127.0.0.1" });
    return { port: app.server.address().port, close: () => app.close() };
  },
  async hono(limiter, inFlight) {
    const app = new Hono();
    app.onError((_error, context) => context.body(null, 500));
    app.use(limitHono({ limiter }));
    app.get("/*", async (context) => {
      if (context.req.path !== "/stream") {
        await handle(inFlight, context.req.path);
        return context.text("ok");
      }
      return stream(context, (output) =>
        handle(inFlight, "/stream", () => output.write("chunk"), aborted(context.req.raw)),
      );
    });
    const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
    await new Promise((resolve) => server.once("listening", resolve));
    return listening(server);
  },
  async fetch(limiter, inFlight) {
    const limited = limitFetch({ limiter, key: () => "client" })(async (request) => {
      const { pathname } = new URL(request.url);
      if (pathname !== "/stream") {
        try {
          await handle(inFlight, pathname);
          return new Response("ok");
        } catch {
          return new Response(null, { status: 500 });
        }
      }
      const { readable, writable } = new TransformStream();
      const writer = writable.getWriter();
      const chunk = new TextEncoder().encode("chunk");
      handle(inFlight, pathname, () => writer.write(chunk), aborted(request))
        .then(() => writer.close())
        .catch(() => {});
      return new Response(readable);
    });
    const server = serve({ fetch: limited, port: 0, hostname: "127.0.0.1" });
    await new Promise((resolve) => server.once("listening", resolve));
    return listening(server);
  },
};

function listening(server) {
  return { port: server.address().port, close: () => server.close(() => {}).closeAllConnections?.() };
}

/** Yields one row per server. */
export async function* concurrentRequests() {
  const redisServer = await startRedis();
  const redis = new Redis(redisServer.port, { autoResendUnfulfilledCommands: false });
  try {
    for (const [name, start] of Object.entries(servers)) {
      const limiter = redisRateLimiter(redis, { ...POLICY, name });
      const inFlight = new InFlight();
      const server = await start(limiter, inFlight);
      const statuses = await sendAll(server.port);
      const held = await released(redis);
      await server.close();
      await limiter.dispose();
      const failures = [
        ...(inFlight.most > LIMIT ? [`${inFlight.most} requests were in flight`] : []),
        ...(inFlight.most < LIMIT ? [`only ${inFlight.most} requests were in flight at once`] : []),
        ...(held > 0 ? [`${held} keys are still held`] : []),
        ...(statuses.get("200") ? [] : ["no request passed"]),
        ...(statuses.get("429") ? [] : ["no request was rejected"]),
      ];
      const counts = [...statuses].sort().map(([status, count]) => `${count} x ${status}`);
      yield {
        claim: `concurrent requests, ${name}`,
        details: `${REQUESTS} requests, at most ${inFlight.most} of ${LIMIT} in flight: ${counts.join(", ")}`,
        failures,
      };
    }
  } finally {
    redis.disconnect();
    await redisServer.stop();
  }
}

/** Sends all requests, and counts their results. */
async function sendAll(port) {
  const statuses = new Map();
  const count = (status) => statuses.set(status, (statuses.get(status) ?? 0) + 1);
  let sent = 0;
  const caller = async () => {
    while (sent++ < REQUESTS) {
      const path = ["/", "/", "/stream", "/throw"][Math.floor(Math.random() * 4)];
      const isAborted = Math.random() < 0.15;
      const leaver = new AbortController();
      const timer = isAborted && setTimeout(() => leaver.abort(), Math.random() * 6);
      try {
        const response = await fetch(`http://127.0.0.1:${port}${path}`, { signal: leaver.signal });
        await response.text();
        count(String(response.status));
      } catch (error) {
        count(error.name === "AbortError" ? "aborted" : String(error.cause?.code ?? error.name));
      }
      clearTimeout(timer);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  return statuses;
}

/** The number of keys that are held after all responses have ended. */
async function released(redis) {
  for (let i = 0; i < 100; i++) {
    if ((await redis.dbsize()) === 0) return 0;
    await sleep(20);
  }
  return redis.dbsize();
}
