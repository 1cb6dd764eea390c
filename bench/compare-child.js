/** One measurement of compare.js: calls in this process, or a server that the parent sends requests to. */
import { once } from "node:events";
import { pathToFileURL } from "node:url";

const CALLS = 2_000_000;
const KEYS = 1000;

/** CPU time of one call in µs, after a warm-up of the same length. */
async function perCall(call, calls = CALLS) {
  await call(calls);
  const before = process.cpuUsage();
  await call(calls);
  const { user, system } = process.cpuUsage(before);
  return { cpuUs: (user + system) / calls };
}

/** More keys than fit into the caches of a processor. */
const manyKeys = Array.from({ length: 10_000 }, (_, i) => `user:${i}`);
const keys = Array.from({ length: KEYS }, (_, i) => `user:${i}`);

const memory = (policy, decide) => async (dist) => {
  const { memoryRateLimiter } = await import(new URL("index.js", dist).href);
  const limiter = memoryRateLimiter(policy);
  return decide(limiter);
};

/** Decisions on a Redis server of this process's own, by so many concurrent callers. CPU time of the client only. */
const redis = (limits, callers) => async (dist) => {
  const [{ combine }, { redisRateLimiter }, { Redis }, { startRedis }] = await Promise.all([
    import(new URL("index.js", dist).href),
    import(new URL("redis.js", dist).href),
    import("ioredis"),
    import("../test/servers/redis-server.js"),
  ]);
  const started = await startRedis();
  const client = new Redis(started.port, "127.0.0.1");
  const parts = Array.from({ length: limits }, (_, i) =>
    redisRateLimiter(client, { name: `limit-${i}`, capacity: 1e8, tokensPerSecond: 1e8 }),
  );
  const limiter = limits > 1 ? combine(parts) : parts[0];
  const result = await perCall(
    async (calls) => {
      let left = calls;
      const caller = async () => {
        while (left-- > 0) await limiter.consume(keys[left % KEYS]);
      };
      await Promise.all(Array.from({ length: callers }, caller));
    },
    callers === 1 ? 10_000 : 100_000,
  );
  client.disconnect();
  await started.stop();
  return result;
};

/** A server whose requests are all allowed, or all denied but the first. */
const server = (start, policy) => async (dist, name) => {
  const { rateLimit } = await import(new URL(`${name.split(" ")[0]}.js`, dist).href);
  return { port: await start(rateLimit, policy) };
};

const ALLOWED = "100000000/s";
const DENIED = "1/d";

const express = async (rateLimit, policy) => {
  const { default: create } = await import("express");
  const app = create();
  app.use(rateLimit({ policy }));
  app.get("/", (_request, response) => void response.send("hello"));
  const listening = app.listen(0, "127.0.0.1");
  await once(listening, "listening");
  return listening.address().port;
};
const fastify = async (rateLimit, policy) => {
  const { default: create } = await import("fastify");
  const app = create();
  app.addHook("onRequest", rateLimit({ policy }));
  app.get("/", async () => "hello");
  await app.listen({ port: 0, host: "127.0.0.1" });
  return app.server.address().port;
};
const hono = async (rateLimit, policy) => {
  const { Hono } = await import("hono");
  const { serve } = await import("@hono/node-server");
  const app = new Hono();
  app.use(rateLimit({ policy }));
  app.get("/", (context) => context.text("hello"));
  const listening = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
  await once(listening, "listening");
  return listening.address().port;
};

/** @type {Record<string, (dist: string, name: string) => Promise<{ cpuUs?: number, port?: number }>>} */
export const CASES = {
  "consumeSync, hot": memory(ALLOWED, (limiter) =>
    perCall((calls) => {
      for (let i = 0; i < calls; i++) limiter.consumeSync("user:42");
    }),
  ),
  "consumeSync, 1000 keys": memory(ALLOWED, (limiter) =>
    perCall((calls) => {
      for (let i = 0; i < calls; i++) limiter.consumeSync(keys[i % KEYS]);
    }),
  ),
  "consumeSync, denied": memory(DENIED, (limiter) =>
    perCall((calls) => {
      for (let i = 0; i < calls; i++) limiter.consumeSync("user:42");
    }),
  ),
  "consume, promise": memory(ALLOWED, (limiter) =>
    perCall(async (calls) => {
      for (let i = 0; i < calls; i++) await limiter.consume("user:42");
    }, CALLS / 4),
  ),
  "consumeSync, 10k keys": memory(ALLOWED, (limiter) =>
    perCall((calls) => {
      for (let i = 0; i < calls; i++) limiter.consumeSync(manyKeys[i % manyKeys.length]);
    }),
  ),
  "peek, promise": memory(ALLOWED, (limiter) =>
    perCall(async (calls) => {
      for (let i = 0; i < calls; i++) await limiter.peek("user:42");
    }, CALLS / 4),
  ),
  "combine of 2": async (dist) => {
    const { combine, memoryRateLimiter } = await import(new URL("index.js", dist).href);
    const both = combine([memoryRateLimiter(ALLOWED), memoryRateLimiter("90000000/s")]);
    return perCall(async (calls) => {
      for (let i = 0; i < calls; i++) await both.consume("user:42");
    }, CALLS / 4);
  },
  "redis, 1 caller": redis(1, 1),
  "redis, 64 callers": redis(1, 64),
  "redis, 512 callers": redis(1, 512),
  "redis, combine of 2, 64 callers": redis(2, 64),
  "express allowed": server(express, ALLOWED),
  "express denied": server(express, DENIED),
  "fastify allowed": server(fastify, ALLOWED),
  "fastify denied": server(fastify, DENIED),
  "hono allowed": server(hono, ALLOWED),
  "hono denied": server(hono, DENIED),
};

/** Runs a case, and reports to the parent. */
async function run(dist, name) {
  const { cpuUs, port } = await CASES[name](dist, name);
  process.send({ cpuUs, port });
  if (port === undefined) return process.exit();
  let before = process.cpuUsage();
  process.on("message", (message) => {
    const { user, system } = process.cpuUsage(before);
    if (message === "start") before = process.cpuUsage();
    process.send({ cpuUs: user + system });
  });
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) await run(process.argv[2], process.argv[3]);
