/** Tasks that use limiters on Workers KV. */
import { combine, type Decision, fixedWindow, slidingLog, slidingWindow } from "sluice";
import { kvRateLimiter, kvStore } from "sluice/cloudflare";
import { storeSuite } from "sluice/testing";
import { failuresOf } from "../../collect.ts";
import type { Tasks } from "../tasks.ts";
import {
  barrier,
  countAllowed,
  type Env,
  FIVE,
  freshKey,
  realNow,
  remainingOf,
  SpiedKV,
  sleep,
  startMidWindow,
} from "./spied-kv.ts";

export const kvTasks: Tasks<Env> = {
  /** Runs the contract suite of approximate stores. */
  async contractSuite({ KV }, { algorithm }: { algorithm: "fixed-window" | "sliding-window" | "sliding-log" }) {
    return failuresOf(({ describe, it }) =>
      storeSuite("KV", () => kvStore(new SpiedKV(KV)), {
        describe,
        it,
        level: "approximate",
        algorithms: [algorithm],
      }),
    );
  },

  /** Sends one request per isolate, all of which read before the first one writes. */
  async isolates({ KV }, { isolates }: { isolates: number }) {
    startMidWindow();
    const key = freshKey();
    const allHaveRead = barrier(isolates);
    const limiters = Array.from({ length: isolates }, () => {
      const kv = new SpiedKV(KV);
      kv.beforeRead = allHaveRead;
      return kvRateLimiter(kv, FIVE);
    });
    const decisions = await Promise.all(limiters.map((limiter) => limiter.consume(key)));
    Date.now = realNow;
    return { admitted: countAllowed(decisions), marked: decisions.every(({ approximate }) => approximate) };
  },

  /** Sends requests in one isolate, all of which read before the first one writes. */
  async oneIsolate({ KV }, { requests }: { requests: number }) {
    startMidWindow();
    const kv = new SpiedKV(KV);
    kv.beforeRead = barrier(requests);
    const limiter = kvRateLimiter(kv, FIVE);
    const key = freshKey();
    const decisions = await Promise.all(Array.from({ length: requests }, () => limiter.consume(key)));
    Date.now = realNow;
    return countAllowed(decisions);
  },

  /** Lets isolates consume that never see each other's writes. */
  async bound({ KV }, { isolates }: { isolates: number }) {
    startMidWindow();
    const key = freshKey();
    const allHaveRead = barrier(isolates);
    const each = await Promise.all(
      Array.from({ length: isolates }, async () => {
        const kv = new SpiedKV(KV);
        kv.beforeRead = allHaveRead;
        const limiter = kvRateLimiter(kv, FIVE);
        const decisions: Decision[] = [];
        for (let i = 0; i < 20; i++) decisions.push(await limiter.consume(key));
        return countAllowed(decisions);
      }),
    );
    Date.now = realNow;
    return each;
  },

  /** Lets isolates consume that see each other's writes. */
  async sharing({ KV }) {
    startMidWindow();
    const key = freshKey();
    const counts: number[] = [];
    for (let i = 0; i < 3; i++) {
      const limiter = kvRateLimiter(new SpiedKV(KV), FIVE);
      counts.push(countAllowed(await Promise.all([limiter.consume(key), limiter.consume(key)])));
      // The second grant is written by the next call of this isolate, a second later.
      await sleep(1010);
      counts.push(await remainingOf(limiter, key));
    }
    Date.now = realNow;
    return counts;
  },

  /** Uses windows that are shorter than the minimum TTL of KV. */
  async shortWindow({ KV }, { algorithm }: { algorithm: "fixed-window" | "sliding-window" | "sliding-log" }) {
    let now = realNow();
    now -= now % 10_000;
    Date.now = () => now;
    const kv = new SpiedKV(KV);
    const policy = { "fixed-window": fixedWindow, "sliding-window": slidingWindow, "sliding-log": slidingLog }[
      algorithm
    ];
    const limiter = kvRateLimiter(kv, policy("3/10s"), { localDenialMs: 0 });
    const key = freshKey();
    const verdicts: boolean[] = [];
    const consume = async () => verdicts.push((await limiter.consume(key)).allowed);
    for (let i = 0; i < 4; i++) await consume();
    now += 9_999;
    await consume();
    now += algorithm === "sliding-window" ? 10_001 : 1;
    await consume();
    Date.now = realNow;
    return { verdicts, ttls: kv.writes.map(({ expirationTtl }) => expirationTtl) };
  },

  /** Returns the TTL of a long window. */
  async longWindow({ KV }) {
    const kv = new SpiedKV(KV);
    await kvRateLimiter(kv, slidingLog("3/1d")).consume(freshKey());
    return kv.writes.map(({ expirationTtl }) => expirationTtl);
  },

  /** Consumes often from one key, with or without waitUntil. */
  async busyKey({ KV }, { usesWaitUntil }: { usesWaitUntil: boolean }) {
    const kv = new SpiedKV(KV);
    const pending: Promise<unknown>[] = [];
    const limiter = kvRateLimiter(kv, fixedWindow("1000/1d"), {
      ...(usesWaitUntil ? { waitUntil: (promise: Promise<unknown>) => pending.push(promise) } : {}),
    });
    const key = freshKey();
    for (let i = 0; i < 40; i++) {
      await Promise.all([limiter.consume(key), limiter.consume(key), limiter.consume(key)]);
      await sleep(10);
    }
    await Promise.all(pending);
    const [count] = Object.values(JSON.parse(kv.writes.at(-1)?.value ?? "{}").isolates ?? {}) as number[][];
    return {
      writes: kv.writes.length,
      reads: kv.reads,
      // [version, start of the window, count]
      written: count?.[2],
      remaining: await remainingOf(limiter, key),
    };
  },

  /** Consumes while a write is blocked, with waitUntil. */
  async delayedWrite({ KV }) {
    const kv = new SpiedKV(KV);
    let write = () => {};
    kv.beforeWrite = () =>
      new Promise<void>((resolve) => {
        write = resolve;
      });
    const pending: Promise<unknown>[] = [];
    const limiter = kvRateLimiter(kv, FIVE, { waitUntil: (promise) => pending.push(promise) });
    const { allowed } = await limiter.consume(freshKey());
    const before = kv.writes.length;
    write();
    await Promise.all(pending);
    return { allowed, before, after: kv.writes.length };
  },

  /** Consumes while reads return the value from before its own write. */
  async staleReads({ KV }) {
    startMidWindow();
    const kv = new SpiedKV(KV);
    const limiter = kvRateLimiter(kv, FIVE, { localDenialMs: 0 });
    const key = freshKey();
    await limiter.consume(key, 5);
    kv.stale = null;
    const verdicts: boolean[] = [];
    for (let i = 0; i < 2; i++) {
      await sleep(1010);
      verdicts.push((await limiter.consume(key)).allowed);
    }
    Date.now = realNow;
    return { verdicts, reads: kv.reads };
  },

  /** Refunds, resets and inspects a key. */
  async refundResetInspect({ KV }) {
    startMidWindow();
    const kv = new SpiedKV(KV);
    const limiter = kvRateLimiter(kv, { ...FIVE, name: "inspected" });
    const key = freshKey();
    await limiter.consume(key, 4);
    const inspected = await limiter.inspect(key);
    await limiter.refund(key, 3);
    const refunded = await remainingOf(limiter, key);
    await limiter.reset(key);
    const after = { remaining: await remainingOf(limiter, key), found: (await limiter.inspect(key)).found };
    Date.now = realNow;
    return { inspected, refunded, ...after };
  },

  /** Charges two windows in one group. */
  async twoWindows({ KV }) {
    startMidWindow();
    const kv = new SpiedKV(KV);
    const [hourly, daily] = [kvRateLimiter(kv, fixedWindow("3/1h")), kvRateLimiter(kv, fixedWindow("10/1d"))];
    const key = freshKey();
    const decisions: Decision[] = [];
    for (let i = 0; i < 6; i++) decisions.push(await combine([hourly, daily]).consume(key));
    const seen = { admitted: countAllowed(decisions), daily: await remainingOf(daily, key), denied: decisions.at(-1) };
    Date.now = realNow;
    return seen;
  },

  /** Rejects writes, then reads. */
  async kvFailures({ KV }) {
    startMidWindow();
    const busy = new SpiedKV(KV);
    busy.beforeWrite = async () => {
      throw new Error("KV PUT failed: 429 Too Many Requests");
    };
    const limiter = kvRateLimiter(busy, FIVE, { onStoreError: "throw" });
    const key = freshKey();
    const decisions: Decision[] = [];
    for (let i = 0; i < 7; i++) decisions.push(await limiter.consume(key));
    busy.beforeWrite = async () => {};
    await sleep(1010);
    await limiter.consume(key);
    const down = new SpiedKV(KV);
    down.beforeRead = async () => {
      throw new Error("KV GET failed: 503");
    };
    const degraded = await kvRateLimiter(down, FIVE).consume(key);
    Date.now = realNow;
    return {
      admitted: countAllowed(decisions),
      writes: busy.writes.length,
      degraded: degraded.degraded,
      allowed: degraded.allowed,
    };
  },

  /** Consumes from keys with values that sluice did not write. */
  async foreignValues({ KV }) {
    startMidWindow();
    const verdicts: unknown[] = [];
    for (const value of [
      "",
      "garbage",
      "[]",
      "{}",
      '{"state":"x"}',
      '{"state":[1]}',
      '{"state":[-1,2]}',
      '{"state":[1,2,3,4]}',
      "null",
    ]) {
      const key = freshKey();
      const limiter = kvRateLimiter(new SpiedKV(KV), FIVE, { onStoreError: "throw" });
      const { storedKey } = await limiter.inspect(key);
      await KV.put(storedKey, value, { expirationTtl: 60 });
      verdicts.push((await limiter.consume(key, 5)).allowed);
    }
    Date.now = realNow;
    return verdicts;
  },
};
