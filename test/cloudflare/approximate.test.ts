/** KV, the rate limit binding and hybrid limiters in real workerd. Needs `npm run build`. */
import { type Decision, fixedWindow, type Inspection, slidingLog, tokenBucket } from "sluice";
import {
  bindingRateLimiter,
  type DurableObjectNamespaceLike,
  durableObjectRateLimiter,
  type KVNamespaceLike,
  kvRateLimiter,
  type RateLimitBinding,
} from "sluice/cloudflare";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { withWorkerd } from "../servers/needs.ts";
import { startWorkerd, type Workerd } from "./workerd.ts";

let workerd: Workerd;
beforeAll(async () => {
  workerd = await startWorkerd("approximate-worker.ts", {
    kvNamespaces: ["KV"],
    ratelimits: { RL: { namespace_id: "1001", simple: { limit: 20, period: 60 } } },
    durableObjects: { OBJECTS: { className: "RateLimiterDO", useSQLite: true } },
    serviceBindings: { SERVICE: () => new Response("hello") },
  });
});
afterAll(() => workerd?.stop());

interface Bindings extends Record<string, unknown> {
  OBJECTS: DurableObjectNamespaceLike;
  KV: KVNamespaceLike;
  RL: RateLimitBinding;
}

const WINDOWS = ["fixed-window", "sliding-window", "sliding-log"] as const;

describe("KV", withWorkerd, () => {
  it.each(WINDOWS)("%s: passes the suite of approximate stores", async (algorithm) => {
    expect(await workerd.run("contractSuite", { algorithm })).toEqual([]);
  });

  // docs/stores/cloudflare.md states these numbers.
  it.each([
    [1, 0],
    [10, 5],
    [50, 45],
  ])("admits in %i isolates that read before the first write %i too many on a limit of 5", async (isolates, over) => {
    const { admitted, marked } = await workerd.run<{ admitted: number; marked: boolean }>("isolates", { isolates });
    console.log(
      `KV: ${isolates} isolates at once, limit 5: ${admitted} admitted, ${Math.max(0, admitted - 5)} too many`,
    );
    expect(Math.max(0, admitted - 5)).toBe(over);
    expect(marked).toBe(true);
  });

  it.each([1, 10, 50])(
    "admits none too many for %i requests of one isolate that read before the first write",
    async (requests) => {
      const admitted = await workerd.run<number>("oneIsolate", { requests });
      console.log(`KV: ${requests} requests of one isolate at once, limit 5: ${admitted} admitted`);
      expect(admitted).toBe(Math.min(5, requests));
    },
  );

  it("admits no more than the limit in each isolate", async () => {
    expect(await workerd.run("bound", { isolates: 4 })).toEqual([5, 5, 5, 5]);
  });

  it("adds up the counts of isolates that have read each other's writes", async () => {
    expect(await workerd.run("sharing")).toEqual([2, 3, 2, 1, 1, 0]);
  });

  it.each(WINDOWS)("%s: supports windows of 10 s with TTLs of 60 s", async (algorithm) => {
    const { verdicts, ttls } = await workerd.run<{ verdicts: boolean[]; ttls: number[] }>("shortWindow", { algorithm });
    expect(verdicts).toEqual([true, true, true, false, false, true]);
    expect(ttls.length).toBeGreaterThan(0);
    expect(ttls.every((ttl) => ttl === 60)).toBe(true);
  });

  it("keeps a long window until it ends", async () => {
    const [ttl, ...more] = await workerd.run<number[]>("longWindow");
    expect(ttl).toBe(86_400);
    expect(more).toEqual([]);
  });

  it("writes a busy key once per second, and completely with waitUntil", async () => {
    const { writes, reads, written, remaining } = await workerd.run<Record<string, number>>("busyKey", {
      usesWaitUntil: true,
    });
    expect(remaining).toBe(880);
    expect(written).toBe(120);
    expect(writes).toBeLessThanOrEqual(3);
    expect(reads).toBeLessThanOrEqual(5);
  });

  it("writes a busy key once per second without waitUntil", async () => {
    const { writes, remaining } = await workerd.run<Record<string, number>>("busyKey", { usesWaitUntil: false });
    expect(remaining).toBe(880);
    expect(writes).toBeLessThanOrEqual(2);
  });

  it("does not delay a request by its write with waitUntil", async () => {
    expect(await workerd.run("delayedWrite")).toEqual({ allowed: true, before: 0, after: 1 });
  });

  it("keeps its own count if reads are stale", async () => {
    expect(await workerd.run("staleReads")).toEqual({ verdicts: [false, false], reads: 3 });
  });

  it("supports refund, reset and inspect", async () => {
    const { inspected, refunded, remaining, found } = await workerd.run<{
      inspected: Inspection;
      refunded: number;
      remaining: number;
      found: boolean;
    }>("refundResetInspect");
    expect(inspected).toMatchObject({
      policy: "inspected",
      found: true,
      limit: 5,
      remaining: 1,
      ttlMs: expect.any(Number),
    });
    expect(inspected.ttlMs).toBeGreaterThanOrEqual(inspected.resetAfterMs - 1000);
    expect({ refunded, remaining, found }).toEqual({ refunded: 4, remaining: 5, found: false });
  });

  it("charges two windows or none", async () => {
    const { admitted, daily, denied } = await workerd.run<{ admitted: number; daily: number; denied: Decision }>(
      "twoWindows",
    );
    expect({ admitted, daily }).toEqual({ admitted: 3, daily: 7 });
    expect(denied).toMatchObject({ allowed: false, approximate: true, limit: 3 });
  });

  it("keeps counting if a write is rejected, and falls back if KV is down", async () => {
    expect(await workerd.run("kvFailures")).toEqual({ admitted: 5, writes: 1, degraded: true, allowed: true });
  });

  it("treats values that it can't read as absent", async () => {
    expect(await workerd.run("foreignValues")).toEqual(Array(9).fill(true));
  });
});

/** Waits if a window of the simulated binding is about to end: a burst must stay in one window. */
async function avoidWindowEnd(): Promise<void> {
  const leftMs = 60_000 - (Date.now() % 60_000);
  if (leftMs < 5000) await new Promise((resolve) => setTimeout(resolve, leftMs + 50));
}

describe("the rate limit binding", withWorkerd, () => {
  it("admits its limit, with decisions marked unknown", async () => {
    await avoidWindowEnd();
    const { errors, ...seen } = await workerd.run<Record<string, unknown>>("binding");
    const common = { policy: "20/1m fixed", limit: 20, approximate: true, unknown: true };
    expect(seen).toMatchObject({
      admitted: 20,
      allowed: { allowed: true, ...common },
      denied: { allowed: false, ...common, retryAfterMs: 60_000 },
      free: { allowed: true, ...common },
      never: { allowed: false, ...common, retryAfterMs: null },
      consistency: "approximate",
    });
    expect(errors).toMatchSnapshot();
  });

  it("sends no RateLimit headers, and the whole period as Retry-After", async () => {
    await avoidWindowEnd();
    expect(await workerd.run("bindingOverHttp")).toEqual([
      { status: 200, fields: [], retryAfter: null },
      { status: 429, fields: [], retryAfter: "60" },
    ]);
  });
});

describe("limiters created per request", withWorkerd, () => {
  it("share their fallback while KV or the binding is down, and don't share a budget across policies", async () => {
    await avoidWindowEnd();
    expect(await workerd.run("limitersPerRequest")).toEqual({ byKV: 5, byBinding: 5, login: 20, search: true });
  });
});

describe("hybrid limiters", withWorkerd, () => {
  it("deny by the first limiter, decide by the exact one, and skip a first one that fails", async () => {
    await avoidWindowEnd();
    expect(await workerd.run("hybrid")).toEqual({
      flooded: 5,
      floodCalls: 5,
      approximateFlood: true,
      denied: 5,
      approximateDenial: false,
      firstRemaining: 3,
      withBinding: 3,
      peeked: true,
      skipped: 3,
      thrown: true,
      costly: true,
      consistency: "approximate",
      policy: 5,
    });
  });
});

describe("bindings in Node, through a proxy", withWorkerd, () => {
  it("use the same objects, KV and binding", async () => {
    await avoidWindowEnd();
    const { OBJECTS, KV, RL } = (await workerd.bindings()) as Bindings;
    const options = { onStoreError: "throw", deadlineMs: "10s" } as const;
    const limiters = [
      durableObjectRateLimiter(OBJECTS, tokenBucket("2/h"), options),
      kvRateLimiter(KV, slidingLog("2/h"), options),
      bindingRateLimiter(RL, fixedWindow("20/60s"), options),
    ];
    const verdicts: string[] = [];
    for (const limiter of limiters) {
      const decisions = [await limiter.consume("node"), await limiter.consume("node"), await limiter.consume("node")];
      verdicts.push(decisions.map(({ allowed }) => allowed).join());
    }
    expect(verdicts).toEqual(["true,true,false", "true,true,false", "true,true,true"]);
  });
});

describe("invalid input", withWorkerd, () => {
  it("is rejected with a clear error", async () => {
    expect(await workerd.run("invalidInput")).toMatchSnapshot();
  });
});
