/** KV, the rate-limit binding and hybrids in real workerd: what they promise, and by how much they miss. Needs `npm run build`. */
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

describe("KV", () => {
  it.each(WINDOWS)("%s: says that it is approximate", async (algorithm) => {
    expect(await workerd.ask("kit", { algorithm })).toEqual([]);
  });

  // The figures of docs/stores/cloudflare.md.
  it.each([
    [1, 0],
    [10, 5],
    [50, 45],
  ])(
    "%i isolates with one request each that read before the first writes: %i too many on a limit of 5",
    async (isolates, over) => {
      const { admitted, marked } = await workerd.ask<{ admitted: number; marked: boolean }>("isolates", { isolates });
      console.log(
        `KV: ${isolates} isolates at once, limit 5: ${admitted} admitted, ${Math.max(0, admitted - 5)} too many`,
      );
      expect(Math.max(0, admitted - 5)).toBe(over);
      expect(marked).toBe(true);
    },
  );

  it.each([1, 10, 50])(
    "%i requests of one isolate that read before the first writes: none too many",
    async (requests) => {
      const admitted = await workerd.ask<number>("oneIsolate", { requests });
      console.log(`KV: ${requests} requests of one isolate at once, limit 5: ${admitted} admitted`);
      expect(admitted).toBe(Math.min(5, requests));
    },
  );

  it("admits in each isolate what it would admit alone, and no more", async () => {
    expect(await workerd.ask("bound", { isolates: 4 })).toEqual([5, 5, 5, 5]);
  });

  it("counts together what isolates have seen of each other", async () => {
    expect(await workerd.ask("sharing")).toEqual([2, 3, 2, 1, 1, 0]);
  });

  it.each(WINDOWS)("%s: windows of 10 s work, with times to live of 60 s", async (algorithm) => {
    const { verdicts, ttls } = await workerd.ask<{ verdicts: boolean[]; ttls: number[] }>("short", { algorithm });
    expect(verdicts).toEqual([true, true, true, false, false, true]);
    expect(ttls.length).toBeGreaterThan(0);
    expect(ttls.every((ttl) => ttl === 60)).toBe(true);
  });

  it("keeps a long window for as long as it counts", async () => {
    const [ttl, ...more] = await workerd.ask<number[]>("long");
    expect(ttl).toBe(86_400);
    expect(more).toEqual([]);
  });

  it("writes a busy key once a second, and all of it where there is waitUntil", async () => {
    const { writes, reads, written, left } = await workerd.ask<Record<string, number>>("coalescing", { waits: true });
    expect(left).toBe(880);
    expect(written).toBe(120);
    expect(writes).toBeLessThanOrEqual(3);
    expect(reads).toBeLessThanOrEqual(5);
  });

  it("writes a busy key once a second without waitUntil too", async () => {
    const { writes, left } = await workerd.ask<Record<string, number>>("coalescing", { waits: false });
    expect(left).toBe(880);
    expect(writes).toBeLessThanOrEqual(2);
  });

  it("keeps no request waiting for its write where there is waitUntil", async () => {
    expect(await workerd.ask("waiting")).toEqual({ allowed: true, before: 0, after: 1 });
  });

  it("does not forget its own writes when reads are late", async () => {
    expect(await workerd.ask("stale")).toEqual({ verdicts: [false, false], reads: 3 });
  });

  it("refunds, resets and shows", async () => {
    const { inspected, refunded, left, found } = await workerd.ask<{
      inspected: Inspection;
      refunded: number;
      left: number;
      found: boolean;
    }>("byHand");
    expect(inspected).toMatchObject({
      policy: "by hand",
      found: true,
      limit: 5,
      remaining: 1,
      ttlMs: expect.any(Number),
    });
    expect(inspected.ttlMs).toBeGreaterThanOrEqual(inspected.resetAfterMs - 1000);
    expect({ refunded, left, found }).toEqual({ refunded: 4, left: 5, found: false });
  });

  it("takes from two windows or from none", async () => {
    const { admitted, daily, denied } = await workerd.ask<{ admitted: number; daily: number; denied: Decision }>(
      "both",
    );
    expect({ admitted, daily }).toEqual({ admitted: 3, daily: 7 });
    expect(denied).toMatchObject({ allowed: false, approximate: true, limit: 3 });
  });

  it("counts on when a write is refused, and decides by itself when KV is down", async () => {
    expect(await workerd.ask("faults")).toEqual({ admitted: 5, writes: 1, degraded: true, allowed: true });
  });

  it("takes what it can't read for nothing", async () => {
    expect(await workerd.ask("foreign")).toEqual(Array(9).fill(true));
  });
});

/** The simulation counts in windows of the clock: a burst must not cross the edge of one. */
async function awayFromTheEdge(): Promise<void> {
  const left = 60_000 - (Date.now() % 60_000);
  if (left < 5000) await new Promise((resolve) => setTimeout(resolve, left + 50));
}

describe("the rate-limit binding", () => {
  it("admits what it is set to, and says that it knows nothing else", async () => {
    await awayFromTheEdge();
    const { refusals, ...seen } = await workerd.ask<Record<string, unknown>>("binding");
    const about = { policy: "20/1m fixed", limit: 20, approximate: true, unknown: true };
    expect(seen).toMatchObject({
      admitted: 20,
      allowed: { allowed: true, ...about },
      denied: { allowed: false, ...about, retryAfterMs: 60_000 },
      free: { allowed: true, ...about },
      never: { allowed: false, ...about, retryAfterMs: null },
      consistency: "approximate",
    });
    expect(refusals).toMatchSnapshot();
  });

  it("tells no RateLimit fields over HTTP, and the whole period to wait", async () => {
    await awayFromTheEdge();
    expect(await workerd.ask("bindingOverHttp")).toEqual([
      { status: 200, fields: [], retryAfter: null },
      { status: 429, fields: [], retryAfter: "60" },
    ]);
  });
});

describe("limiters that are made for every request", () => {
  it("share what they know while KV or the binding is down, and policies on one binding share nothing", async () => {
    await awayFromTheEdge();
    expect(await workerd.ask("perRequest")).toEqual({ byKV: 5, byBinding: 5, login: 20, search: true });
  });
});

describe("hybrids", () => {
  it("deny by the first ring, decide by the exact one, and pass a ring by that is down", async () => {
    await awayFromTheEdge();
    expect(await workerd.ask("hybrid")).toEqual({
      flooded: 5,
      floodCalls: 5,
      final: true,
      denied: 5,
      exactly: false,
      ringLeft: 3,
      bounded: 3,
      looked: true,
      past: 3,
      thrown: true,
      costly: true,
      consistency: "approximate",
      policy: 5,
    });
  });
});

describe("from Node, where a proxy stands for the bindings", () => {
  it("counts in the same objects, KV and binding", async () => {
    await awayFromTheEdge();
    const { OBJECTS, KV, RL } = (await workerd.bindings()) as Bindings;
    const care = { onStoreError: "throw", deadlineMs: "10s" } as const;
    const limiters = [
      durableObjectRateLimiter(OBJECTS, tokenBucket("2/h"), care),
      kvRateLimiter(KV, slidingLog("2/h"), care),
      bindingRateLimiter(RL, fixedWindow("20/60s"), care),
    ];
    const verdicts: string[] = [];
    for (const limiter of limiters) {
      const decisions = [await limiter.consume("node"), await limiter.consume("node"), await limiter.consume("node")];
      verdicts.push(decisions.map(({ allowed }) => allowed).join());
    }
    expect(verdicts).toEqual(["true,true,false", "true,true,false", "true,true,true"]);
  });
});

describe("bad input", () => {
  it("is answered with a clear error", async () => {
    expect(await workerd.ask("input")).toMatchSnapshot();
  });
});
