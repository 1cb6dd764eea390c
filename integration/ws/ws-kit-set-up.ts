/** Shared set-up of the tests with ws-kit's router: a Redis server, limiters, and expected messages. */
import type { Middleware } from "@ws-kit/core";
import { Redis } from "ioredis";
import { type Decision, memoryRateLimiter, type Policy, type RateLimiter } from "sluice";
import { redisRateLimiter } from "sluice/redis";
import type { keyPerUser } from "sluice/ws";
import { afterAll, beforeAll, vi } from "vitest";
import { type RedisServer, startRedis } from "../../test/servers/redis-server.js";
import type { costOf } from "./apps/ws-kit-router.js";
import type { ServerMessage } from "./ws-kit-clients.ts";

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

/** A burst of three, refilled too slowly for any pause of the machine to add one, or fast enough to wait for one. */
const SLOW: Policy = { capacity: 3, tokensPerSecond: "1/m" };
export const FAST: Policy = { capacity: 3, tokensPerSecond: 1 };

let made = 0;
/** A Redis limiter with its own buckets. With `throw`, tests fail if Redis is unavailable. */
export const onRedis = (policy: Policy = SLOW) =>
  redisRateLimiter(redis, { ...policy, prefix: `test ${++made}` }, { onStoreError: "throw", deadlineMs: "20s" });
export const stores: [string, (policy?: Policy) => RateLimiter][] = [
  ["in memory", (policy = SLOW) => memoryRateLimiter(policy)],
  ["in Redis", onRedis],
];

/** The middleware of ws-kit or of sluice, with the options that both have. */
export type Limit = (options: { limiter: RateLimiter; key?: typeof keyPerUser; cost?: typeof costOf }) => Middleware;

/** Records the decisions of a limiter from now on. */
export function decisionsOf(limiter: RateLimiter): Decision[] {
  const decisions: Decision[] = [];
  const { consume, consumeSync } = limiter;
  // One of the methods may call the other.
  const record = (decision: Decision) => {
    if (!decisions.includes(decision)) decisions.push(decision);
    return decision;
  };
  vi.spyOn(limiter, "consume").mockImplementation(async (...args) => record(await consume.apply(limiter, args)));
  if (consumeSync) {
    const sync = limiter as Required<RateLimiter>;
    vi.spyOn(sync, "consumeSync").mockImplementation((...args) => record(consumeSync.apply(limiter, args)));
  }
  return decisions;
}

/** Returns an error message with the type of its text instead of the text. */
export const errorOf = ({ type, payload: { message, ...payload } }: ServerMessage) => ({
  type,
  ...payload,
  message: typeof message,
});
export const saidMessage = (text: string) => ({ type: "SAID", meta: {}, payload: { text } });
export const error = (code: string, more: object) => ({ type: "RPC_ERROR", code, message: "string", ...more });
export const waitIn = (messages: readonly ServerMessage[]): number =>
  messages.find(({ type }) => type === "RPC_ERROR")?.payload.retryAfterMs;
export const textsOf = (messages: readonly ServerMessage[]) =>
  messages.map(({ type, payload }) => (type === "SAID" ? payload.text : payload.code));
