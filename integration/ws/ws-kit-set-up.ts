/** What the tests with ws-kit's router have in common: a Redis of their own, limiters on it, and words for what is told. */
import type { Middleware } from "@ws-kit/core";
import { Redis } from "ioredis";
import { type Decision, memoryRateLimiter, type Policy, type RateLimiter } from "sluice";
import { redisRateLimiter } from "sluice/redis";
import type { keyPerUser } from "sluice/ws";
import { afterAll, beforeAll, vi } from "vitest";
import { type RedisServer, startRedis } from "../../test/servers/redis-server.js";
import type { costOf } from "./apps/ws-kit-router.js";
import type { Told } from "./ws-kit-clients.ts";

export let server: RedisServer;
let redis: Redis;
beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
});
afterAll(async () => {
  redis?.disconnect();
  await server?.stop();
});

/** Three at once: so slowly that no pause of the machine gives one more, or fast enough to wait for one. */
const SLOW: Policy = { capacity: 3, tokensPerSecond: "1/m" };
export const FAST: Policy = { capacity: 3, tokensPerSecond: 1 };

let made = 0;
/** In buckets of its own. Without `throw` it would pass without any Redis. */
export const onRedis = (policy: Policy = SLOW) =>
  redisRateLimiter(redis, { ...policy, prefix: `test ${++made}` }, { onStoreError: "throw", deadlineMs: "20s" });
export const where: [string, (policy?: Policy) => RateLimiter][] = [
  ["in memory", (policy = SLOW) => memoryRateLimiter(policy)],
  ["in Redis", onRedis],
];

/** ws-kit's middleware or ours, told the same. */
export type Limit = (options: { limiter: RateLimiter; key?: typeof keyPerUser; cost?: typeof costOf }) => Middleware;

/** What a limiter decides, from now on. */
export function decisionsOf(limiter: RateLimiter): Decision[] {
  const decisions: Decision[] = [];
  const { consume, consumeSync } = limiter;
  // One of them may call the other.
  const tell = (decision: Decision) => {
    if (!decisions.includes(decision)) decisions.push(decision);
    return decision;
  };
  vi.spyOn(limiter, "consume").mockImplementation(async (...args) => tell(await consume.apply(limiter, args)));
  if (consumeSync) {
    const sync = limiter as Required<RateLimiter>;
    vi.spyOn(sync, "consumeSync").mockImplementation((...args) => tell(consumeSync.apply(limiter, args)));
  }
  return decisions;
}

/** What is told of an error, without its words. */
export const errorOf = ({ type, payload: { message, ...payload } }: Told) => ({
  type,
  ...payload,
  message: typeof message,
});
export const said = (text: string) => ({ type: "SAID", meta: {}, payload: { text } });
export const error = (code: string, more: object) => ({ type: "RPC_ERROR", code, message: "string", ...more });
export const waitIn = (told: readonly Told[]): number =>
  told.find(({ type }) => type === "RPC_ERROR")?.payload.retryAfterMs;
export const textsOf = (told: readonly Told[]) =>
  told.map(({ type, payload }) => (type === "SAID" ? payload.text : payload.code));
