/**
 * Who is measured. `make(limits)` gives `hit(key)`, which spends 1, and `denied(answer)`, which reads its answer.
 * Packages are loaded in `make`, so that a child process loads the one that it measures and no other.
 */

/** What the counters with a window are given; no measurement lasts as long. */
const WINDOW_MS = 600_000;

/** A limit that is never reached. */
export const AMPLE = { limit: 1e8, perSecond: 100 };
/** A limit that the second call exceeds. */
export const SPENT = { limit: 1, perSecond: 0.001 };

const sluice = () => import("../dist/index.js");
const isDenied = (answer) => !answer.allowed;

async function sluiceLimiter({ limit, perSecond, maxKeys }, clock) {
  const { memoryRateLimiter } = await sluice();
  const options = { ...(maxKeys && { maxKeys }), ...(clock && { clock }) };
  return memoryRateLimiter({ capacity: limit, tokensPerSecond: perSecond }, options);
}

/** Three policies on one store, as `combine` wants them. */
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
      // Set between batches: a number that never changes could be compiled in as a constant.
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
      let answer;
      // It calls back before it returns. One callback for all calls is the cheapest way to use it.
      const keep = (_error, result) => {
        answer = result;
      };
      const hit = (key) => {
        store.incr(key, keep, WINDOW_MS, limit);
        return answer;
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
          // It begins empty; its own RateLimiter fills it in this way too.
          bucket.content = limit;
          buckets.set(key, bucket);
        }
        return bucket.tryRemoveTokens(1);
      };
      return { hit, denied: (answer) => !answer };
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

/** Other people's limiters: the ones that "best peer" is chosen from. */
export const peers = ["express", "hono", "fastify", "limiter", "flexible", "ws-kit"];
