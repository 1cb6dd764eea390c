/** The usage blocks of the ws-kit proposal that work as written with the four names of `names.ts`. One export per block. */
import { keyPerUserPerType } from "@ws-kit/middleware";
import { createClient } from "redis";
import type { Router } from "./as-written.ts";
import { createRedisBackend, defaultKey, memoryStore, rateLimit } from "./names.ts";

/** Block 18: after a migration from a limit by hand. */
export function afterMigration(router: Router) {
  const limiter = rateLimit({
    store: memoryStore({ policy: { capacity: 3, tokensPerSecond: 0.001 } }),
    key: defaultKey,
    cost: () => 1,
  });
  router.use(limiter);
}

/** Block 19: one policy. */
export function storeOfOnePolicy(router: Router) {
  const limiter = rateLimit({
    store: memoryStore({ policy: { capacity: 3, tokensPerSecond: 0.001 } }),
    key: keyPerUserPerType,
    cost: (_ctx) => 1,
  });
  router.use(limiter);
}

/** Block 20: two policies of one backend. */
export async function policiesOfBackend(router: Router) {
  const redisConnection = createClient({ url: process.env.REDIS_URL as string });
  await redisConnection.connect();
  const backend = createRedisBackend({ client: redisConnection });
  const cheapLimiter = rateLimit({
    store: backend.createPolicy({ capacity: 20, tokensPerSecond: 0.001, prefix: "cheap:" }),
    key: keyPerUserPerType,
    cost: (_ctx) => 1,
  });
  const expensiveLimiter = rateLimit({
    store: backend.createPolicy({ capacity: 11, tokensPerSecond: 0.001, prefix: "expensive:" }),
    key: keyPerUserPerType,
    cost: (_ctx) => 5,
  });
  router.use(cheapLimiter);
  router.use(expensiveLimiter);
  return redisConnection;
}
