/** Helpers for tests of the Redis store on a real server. */
import type { IoredisLike } from "sluice/redis";
import { afterEach, beforeEach, expect } from "vitest";
import { redis } from "./own-redis.ts";

/** Options of a limiter whose every call reaches its store, and fails with it. */
export const storeOnly = { onStoreError: "throw", localDenialMs: 0, deadlineMs: 20_000 } as const;

/** Empties the database before each test, and checks after it that every key has a TTL. */
export function withEmptyDatabase(): void {
  beforeEach(() => redis.flushdb());
  afterEach(async () => {
    for (const key of await redis.keys("*")) expect(await redis.pttl(key), `TTL of ${key}`).not.toBe(-1);
  });
}

/** The shared client, which records its script calls. */
export function spiedClient(): IoredisLike & { calls: { command: string; keys: string[] }[] } {
  const calls: { command: string; keys: string[] }[] = [];
  return {
    calls,
    get status() {
      return redis.status;
    },
    evalsha(hash, count, ...rest) {
      calls.push({ command: "evalsha", keys: rest.slice(0, count) });
      return redis.evalsha(hash, count, ...rest);
    },
    eval(text, count, ...rest) {
      calls.push({ command: "eval", keys: rest.slice(0, count) });
      return redis.eval(text, count, ...rest);
    },
  };
}
