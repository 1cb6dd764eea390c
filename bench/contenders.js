/**
 * The limiters to measure. `make(limits)` returns `hit(key)`, which charges 1, and `denied(result)`, which reads its result.
 * Packages are loaded in `make`: a child process loads only the one that it measures.
 */

/** The window of contenders that have one. Longer than any measurement. */
const WINDOW_MS = 600_000;

/** A limit that is never reached. */
export const AMPLE = { limit: 1e8, perSecond: 100 };
/** A limit that the second call exceeds. */
export const SPENT = { limit: 1, perSecond: 0.001 };

const sluice = () => import("../dist/index.js");
const isDenied = (decision) => !decision.allowed;

async function sluiceLimiter({ limit, perSecond, maxKeys }, clock) {
  const { memoryRateLimiter } = await sluice();
  const options = { ...(maxKeys && { maxKeys }), ...(clock && { clock }) };
  return memoryRateLimiter({ capacity: limit, tokensPerSecond: perSecond }, options);
}

const ALGORITHMS = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"];
/** Maximum limit of a sliding log. */
const MAX_LOG_LIMIT = 10_000;

/** A policy that is not exceeded in `hot` and `10k`. A sliding log has the highest limit per ms that it supports. */
function policyFor(algorithm, { limit, perSecond }) {
  if (algorithm === "sliding-log") return { algorithm, limit: MAX_LOG_LIMIT, windowMs: 1 };
  if (algorithm.endsWith("window")) return { algorithm, limit, windowMs: WINDOW_MS };
  return {
    algorithm,
    capacity: limit,
    [algorithm === "token-bucket" ? "tokensPerSecond" : "leaksPerSecond"]: perSecond,
  };
}

/** Three policies on one store, for `combine`. */
async function threeLimiters({ limit, perSecond }) {
  const { createLimiter, memoryStore } = await sluice();
  const store = memoryStore();
  return [limit, limit / 2, limit / 4].map((capacity) =>
    createLimiter({ policy: { capacity, tokensPerSecond: perSecond }, store }),
  );
}

export const contenders = {
  sluice: {
    label: "sluice consumeSync",
    api: "sync",
    async make(limits) {
      const limiter = await sluiceLimiter(limits);
      return { hit: (key) => limiter.consumeSync(key), denied: isDenied, store: limiter.store };
    },
  },
  "sluice-stored-clock": {
    label: "sluice consumeSync, stored clock",
    api: "sync",
    async make(limits) {
      const clock = { time: Date.now(), now: () => clock.time };
      const limiter = await sluiceLimiter(limits, clock);
      // Updated between batches: the engine could inline a number that never changes.
      const tick = () => {
        clock.time = Date.now();
      };
      return { hit: (key) => limiter.consumeSync(key), denied: isDenied, tick };
    },
  },
  "sluice-promise": {
    label: "sluice consume",
    api: "promise",
    async make(limits) {
      const limiter = await sluiceLimiter(limits);
      return { hit: (key) => limiter.consume(key), denied: isDenied };
    },
  },
  express: {
    label: "express-rate-limit MemoryStore",
    api: "promise",
    async make({ limit }) {
      const { MemoryStore } = await import("express-rate-limit");
      const store = new MemoryStore();
      store.init({ windowMs: WINDOW_MS, limit });
      return { hit: (key) => store.increment(key), denied: ({ totalHits }) => totalHits > limit };
    },
  },
  hono: {
    label: "hono-rate-limiter MemoryStore",
    api: "sync",
    async make({ limit }) {
      const { MemoryStore } = await import("hono-rate-limiter");
      const store = new MemoryStore();
      store.init({ windowMs: WINDOW_MS, limit });
      return { hit: (key) => store.increment(key), denied: ({ totalHits }) => totalHits > limit };
    },
  },
  fastify: {
    label: "@fastify/rate-limit LocalStore",
    api: "callback",
    async make({ limit, maxKeys = 8_000_000 }) {
      const { default: LocalStore } = await import("@fastify/rate-limit/store/LocalStore.js");
      const store = new LocalStore(false, false, maxKeys);
      let last;
      // The callback is called synchronously. Sharing one callback is the cheapest way to call it.
      const onResult = (_error, result) => {
        last = result;
      };
      const hit = (key) => {
        store.incr(key, onResult, WINDOW_MS, limit);
        return last;
      };
      return { hit, denied: ({ current }) => current > limit };
    },
  },
  limiter: {
    label: "limiter TokenBucket in a Map",
    api: "sync",
    async make({ limit, perSecond }) {
      const { TokenBucket } = await import("limiter");
      const buckets = new Map();
      const hit = (key) => {
        let bucket = buckets.get(key);
        if (!bucket) {
          bucket = new TokenBucket({ bucketSize: limit, tokensPerInterval: perSecond, interval: "second" });
          // A TokenBucket starts empty. The package's RateLimiter fills it like this.
          bucket.content = limit;
          buckets.set(key, bucket);
        }
        return bucket.tryRemoveTokens(1);
      };
      return { hit, denied: (isAllowed) => !isAllowed };
    },
  },
  flexible: {
    label: "rate-limiter-flexible RateLimiterMemory",
    api: "promise",
    async make({ limit }) {
      const { RateLimiterMemory } = await import("rate-limiter-flexible");
      const limiter = new RateLimiterMemory({ points: limit, duration: WINDOW_MS / 1000 });
      return { hit: (key) => limiter.consume(key), denied: ({ consumedPoints }) => consumedPoints > limit };
    },
  },
  "ws-kit": {
    label: "@ws-kit/memory memoryRateLimiter",
    api: "promise",
    async make({ limit, perSecond }) {
      const { memoryRateLimiter } = await import("@ws-kit/memory");
      const limiter = memoryRateLimiter({ capacity: limit, tokensPerSecond: perSecond });
      return { hit: (key) => limiter.consume(key, 1), denied: isDenied };
    },
  },
  naive: {
    label: "control: naive Map {tokens, last}",
    api: "sync",
    make({ limit, perSecond }) {
      const buckets = new Map();
      const perMs = perSecond / 1000;
      const hit = (key) => {
        const now = Date.now();
        let bucket = buckets.get(key);
        if (!bucket) {
          bucket = { tokens: limit, last: now };
          buckets.set(key, bucket);
        }
        bucket.tokens = Math.min(limit, bucket.tokens + (now - bucket.last) * perMs);
        bucket.last = now;
        if (bucket.tokens < 1) return { allowed: false, remaining: 0, retryAfterMs: (1 - bucket.tokens) / perMs };
        bucket.tokens -= 1;
        return { allowed: true, remaining: Math.floor(bucket.tokens), retryAfterMs: 0 };
      };
      return { hit, denied: isDenied };
    },
  },
  "map-ceiling": {
    label: "ceiling: Map.get + Map.set",
    api: "sync",
    make() {
      const counts = new Map();
      const hit = (key) => {
        const count = ((counts.get(key) ?? 0) + 1) | 0;
        counts.set(key, count);
        return count;
      };
      return { hit };
    },
  },
  "clock-ceiling": {
    label: "ceiling: one Date.now()",
    api: "sync",
    make: () => ({ hit: () => Date.now() }),
  },
  ...Object.fromEntries(
    ALGORITHMS.map((algorithm) => [
      `sluice-${algorithm}`,
      {
        label: algorithm === "sliding-log" ? "sliding-log, grants of one ms" : algorithm,
        api: "sync",
        async make(limits) {
          const { memoryRateLimiter } = await sluice();
          const limiter = memoryRateLimiter(policyFor(algorithm, limits));
          // A fast machine may exceed the limit of the sliding log.
          const denied = algorithm === "sliding-log" ? undefined : isDenied;
          return { hit: (key) => limiter.consumeSync(key), denied };
        },
      },
    ]),
  ),
  "sluice-one-of-three": {
    label: "sluice, one of three limiters",
    api: "sync",
    async make(limits) {
      const [limiter] = await threeLimiters(limits);
      return { hit: (key) => limiter.consumeSync(key), denied: isDenied };
    },
  },
  "sluice-combined": {
    label: "sluice, combine of the three",
    api: "sync",
    async make(limits) {
      const { combine } = await sluice();
      const limiter = combine(await threeLimiters(limits));
      return { hit: (key) => limiter.consumeSync(key), denied: isDenied };
    },
  },
};

/** The rows per algorithm. */
export const algorithmRows = ALGORITHMS.map((algorithm) => `sluice-${algorithm}`);

/** Limiters of other packages, from which "best peer" is chosen. */
export const peers = ["express", "hono", "fastify", "limiter", "flexible", "ws-kit"];
