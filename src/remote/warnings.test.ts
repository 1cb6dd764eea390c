/** Tests the one-time process warnings, which a callback replaces. */
import { combine, createLimiter, type LimiterEvent, type Policy } from "sluice";
import { redisRateLimiter } from "sluice/redis";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { flakyStore } from "../../test/flaky-store.ts";

const policy: Policy = { capacity: 10, tokensPerSecond: "1/d", name: "api" };
let warnings: { code: string; message: string }[];

beforeEach(() => {
  warnings = [];
  vi.spyOn(process, "emitWarning").mockImplementation(((message: string, { code }: { code: string }) => {
    warnings.push({ code, message });
  }) as never);
});
afterEach(() => void vi.restoreAllMocks());

describe("the warning about an unavailable store", () => {
  it("is emitted once if the store has never replied, and the limiter still limits", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const limiter = createLimiter({ policy, store });
    const decisions = await Promise.all(Array.from({ length: 12 }, () => limiter.consume("k")));
    await combine([limiter, createLimiter({ policy: "1/s", store })]).consume("k");
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(10);
    expect(warnings).toEqual([
      {
        code: "SLUICE_STORE_UNAVAILABLE",
        message: expect.stringMatching(/connection lost.*#sluice_store_unavailable$/),
      },
    ]);
  });

  it("is emitted when the circuit opens, and not for a single failure", async () => {
    const store = flakyStore();
    const limiter = createLimiter({ policy, store, onStoreError: "open" });
    await limiter.consume("k");
    store.mode = "fail";
    await limiter.consume("k");
    expect(warnings).toEqual([]);
    for (let i = 0; i < 20; i++) await limiter.consume("k");
    expect(warnings).toHaveLength(1);
    expect(warnings[0]?.message).toContain("allowed without being counted");
  });

  it("is emitted once for a store that fails now and then, and again for an outage", async () => {
    const store = flakyStore();
    const limiter = createLimiter({ policy, store, onStoreError: "open" });
    for (let i = 0; i < 30; i++) {
      store.mode = i % 3 === 2 ? "fail" : "decide";
      await limiter.consume(`k${i}`);
    }
    expect(warnings).toEqual([
      {
        code: "SLUICE_STORE_DEGRADED",
        message: expect.stringMatching(
          /fail now and then, and then requests are allowed without being counted .*connection lost.*#sluice_store_degraded$/,
        ),
      },
    ]);
    store.mode = "fail";
    for (let i = 0; i < 20; i++) await limiter.consume("k");
    expect(warnings.map(({ code }) => code)).toEqual(["SLUICE_STORE_DEGRADED", "SLUICE_STORE_UNAVAILABLE"]);
  });

  it("is not consumed by a slow first reply", async () => {
    const store = flakyStore();
    const limiter = createLimiter({ policy, store, deadlineMs: 5 });
    store.mode = "hang";
    await limiter.consume("k");
    expect(warnings).toEqual([]);
    store.mode = "decide";
    await limiter.consume("k");
    store.mode = "fail";
    for (let i = 0; i < 20; i++) await limiter.consume("k");
    expect(warnings.map(({ code }) => code)).toEqual(["SLUICE_STORE_UNAVAILABLE"]);
  });

  it("contains no client command, which would include keys", async () => {
    const store = flakyStore();
    store.apply = async () => {
      throw new Error('WRONGPASS invalid, command was: [["evalsha","0",1,"s1:{apikey:sk_live}b5/s,5"]]');
    };
    await createLimiter({ policy, store }).consume("k");
    expect(warnings).toHaveLength(1);
    expect(warnings[0]?.message).toContain("WRONGPASS");
    expect(warnings[0]?.message).not.toContain("sk_live");
  });

  it("is not emitted for a limiter with onEvent or onStoreError throw", async () => {
    const events: LimiterEvent[] = [];
    const store = flakyStore();
    store.mode = "fail";
    const heard = createLimiter({ policy, store, onEvent: (event) => void events.push(event) });
    const thrown = createLimiter({ policy, store, onStoreError: "throw" });
    for (let i = 0; i < 10; i++) {
      await heard.consume("k");
      await expect(thrown.consume("k")).rejects.toMatchObject({ code: "store-unavailable" });
    }
    expect(warnings).toEqual([]);
  });

  it("explains how to connect a node-redis client that was never connected", async () => {
    const never = async () => {
      throw new Error("not called");
    };
    const client = { evalSha: never, eval: never, isOpen: false, isReady: false };
    const limiter = redisRateLimiter(client, "2/d");
    const decisions = [await limiter.consume("k"), await limiter.consume("k"), await limiter.consume("k")];
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, false]);
    expect(warnings).toHaveLength(1);
    expect(warnings[0]?.message).toContain("await client.connect()");
  });
});

describe("the warning about a listener that throws", () => {
  it("is emitted once and changes no decision", async () => {
    const store = flakyStore();
    store.mode = "fail";
    const limiter = createLimiter({
      policy,
      store,
      onEvent() {
        throw new Error("listener at fault");
      },
    });
    for (let i = 0; i < 30; i++) await limiter.consume("k");
    expect(warnings).toEqual([
      { code: "SLUICE_CALLBACK_FAILED", message: expect.stringContaining("listener at fault") },
    ]);
  });
});
