/**
 * The Redis limiters to measure. `make(port, limits)` returns `hit(key)`, which charges 1, and `close`.
 * Packages are loaded in `make`: a child process loads only those that it measures.
 */

/** A limit that is never reached: every contender does the same work. */
export const AMPLE = { limit: 600, perSecond: 10 };
/** A limit that the second call exceeds. */
export const SPENT = { limit: 1, perSecond: 0.001 };
const WINDOW_MS = 60_000;

async function ioredis(port, options = {}) {
  const { Redis } = await import("ioredis");
  const client = new Redis(port, { autoResendUnfulfilledCommands: false, ...options });
  await client.ping();
  return client;
}

async function nodeRedis(port) {
  const { createClient } = await import("redis");
  const client = createClient({ socket: { host: "127.0.0.1", port } });
  await client.connect();
  return client;
}

async function sluiceOn(client, { limit, perSecond }, options = {}) {
  const { redisRateLimiter } = await import("../dist/redis.js");
  return redisRateLimiter(
    client,
    { capacity: limit, tokensPerSecond: perSecond },
    { onStoreError: "throw", deadlineMs: "20s", ...options },
  );
}

async function flexibleOn(client, { limit }, options = {}) {
  const { RateLimiterRedis } = await import("rate-limiter-flexible");
  return new RateLimiterRedis({ storeClient: client, points: limit, duration: WINDOW_MS / 1000, ...options });
}

async function expressOn(sendCommand, { limit }) {
  const { RedisStore } = await import("rate-limit-redis");
  const store = new RedisStore({ sendCommand });
  store.init({ windowMs: WINDOW_MS, limit });
  await store.increment("warm-up");
  return store;
}

export const contenders = {
  "sluice-ioredis": {
    client: "ioredis",
    label: "sluice + ioredis",
    async make(port, limits) {
      const client = await ioredis(port);
      const limiter = await sluiceOn(client, limits);
      return { hit: (key) => limiter.consume(key), close: () => client.disconnect() };
    },
  },
  "sluice-node-redis": {
    client: "node-redis",
    label: "sluice + node-redis",
    async make(port, limits) {
      const client = await nodeRedis(port);
      const limiter = await sluiceOn(client, limits);
      return { hit: (key) => limiter.consume(key), close: () => client.destroy() };
    },
  },
  "flexible-ioredis": {
    client: "ioredis",
    label: "rate-limiter-flexible + ioredis",
    async make(port, limits) {
      const client = await ioredis(port);
      const limiter = await flexibleOn(client, limits);
      return { hit: (key) => limiter.consume(key), close: () => client.disconnect() };
    },
  },
  "flexible-autopipelining": {
    client: "ioredis",
    label: "rate-limiter-flexible + ioredis, autopipelining",
    async make(port, limits) {
      const client = await ioredis(port, { enableAutoPipelining: true });
      const limiter = await flexibleOn(client, limits);
      return { hit: (key) => limiter.consume(key), close: () => client.disconnect() };
    },
  },
  "flexible-node-redis": {
    client: "node-redis",
    label: "rate-limiter-flexible + node-redis",
    async make(port, limits) {
      const client = await nodeRedis(port);
      const limiter = await flexibleOn(client, limits, { useRedisPackage: true });
      return { hit: (key) => limiter.consume(key), close: () => client.destroy() };
    },
  },
  "express-ioredis": {
    client: "ioredis",
    label: "rate-limit-redis + ioredis",
    async make(port, limits) {
      const client = await ioredis(port);
      const store = await expressOn((...args) => client.call(...args), limits);
      return { hit: (key) => store.increment(key), close: () => client.disconnect() };
    },
  },
  "express-node-redis": {
    client: "node-redis",
    label: "rate-limit-redis + node-redis",
    async make(port, limits) {
      const client = await nodeRedis(port);
      const store = await expressOn((...args) => client.sendCommand(args), limits);
      return { hit: (key) => store.increment(key), close: () => client.destroy() };
    },
  },
  "fastify-ioredis": {
    client: "ioredis",
    label: "@fastify/rate-limit RedisStore + ioredis",
    async make(port, { limit }) {
      const client = await ioredis(port);
      const { default: RedisStore } = await import("@fastify/rate-limit/store/RedisStore.js");
      const store = new RedisStore(false, false, client);
      const hit = (key) =>
        new Promise((resolve, reject) => {
          store.incr(key, (error, result) => (error ? reject(error) : resolve(result)), WINDOW_MS, limit);
        });
      return { hit, close: () => client.disconnect() };
    },
  },
  "ping-ioredis": {
    client: "ioredis",
    label: "limit: PING + ioredis",
    async make(port) {
      const client = await ioredis(port);
      return { hit: () => client.ping(), close: () => client.disconnect() };
    },
  },
};

/** Limiters of other packages, from which "best peer" is chosen. */
export const peers = Object.keys(contenders).filter((name) => !name.startsWith("sluice") && !name.startsWith("ping"));
