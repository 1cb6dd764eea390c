/** The idempotency store in memory: the contract suite, limits and evictions. */
import { SluiceError } from "sluice";
import { type IdempotencyClaim, memoryIdempotencyStore, type StoredResponse } from "sluice/idempotency";
import { fakeClock, idempotencySuite } from "sluice/testing";
import { describe, expect, it } from "vitest";

idempotencySuite(
  "memory",
  () => {
    const clock = fakeClock();
    return { store: memoryIdempotencyStore({ clock }), advance: clock.advance };
  },
  { describe, it, time: "fake" },
);

idempotencySuite("memory with the system clock", () => memoryIdempotencyStore(), { describe, it });

describe("idempotencySuite", () => {
  it("has 61 cases with titles of their own, and 4 more with a fake clock", () => {
    const titlesOf = (time: "fake" | "real") => {
      const titles: string[] = [];
      const runner = {
        describe: (_: string, body: () => void) => body(),
        it: (title: string) => void titles.push(title),
      };
      idempotencySuite("counted", () => memoryIdempotencyStore(), { ...runner, time });
      return titles;
    };
    expect(new Set(titlesOf("real")).size).toBe(61);
    expect(titlesOf("real")).toHaveLength(61);
    expect(titlesOf("fake")).toHaveLength(65);
  });
});

const LEASE_MS = 30_000;
const TTL_MS = 86_400_000;

function claimOf(key: string, owner = key): IdempotencyClaim {
  return { scope: "user", key, fingerprint: "f", owner, leaseMs: LEASE_MS, ttlMs: TTL_MS };
}

function responseOf(bytes: number): StoredResponse {
  return { status: 200, headers: {}, body: new Uint8Array(bytes) };
}

function storeOf(options: { maxEntries?: number; maxBytes?: number }) {
  const clock = fakeClock();
  const store = memoryIdempotencyStore({ ...options, clock });
  const run = async (key: string, bytes = 10) => {
    expect(await store.begin(claimOf(key))).toEqual({ state: "started", attempt: 1 });
    expect(await store.complete({ scope: "user", key }, key, responseOf(bytes), TTL_MS)).toBe(true);
  };
  const stateOf = async (key: string) => (await store.begin(claimOf(key, "another"))).state;
  return { clock, store, run, stateOf };
}

describe("a store in memory that is full", () => {
  it("evicts the oldest response, and counts it", async () => {
    const { store, run, stateOf } = storeOf({ maxEntries: 3 });
    for (const key of ["a", "b", "c", "d"]) await run(key);
    expect([store.size, store.evictions]).toEqual([3, 1]);
    expect(await stateOf("b")).toBe("completed");
    expect(await stateOf("d")).toBe("completed");
    expect(await stateOf("a")).toBe("started");
  });

  it("evicts by bytes, and stays within them", async () => {
    const { store, run, stateOf } = storeOf({ maxBytes: 100_000 });
    for (let i = 0; i < 50; i++) {
      await run(`k${i}`, 9000);
      expect(store.bytes).toBeLessThanOrEqual(100_000);
    }
    expect(store.size).toBe(10);
    expect(await stateOf("k49")).toBe("completed");
  });

  it("never evicts a request in progress: begin rejects with store-unavailable", async () => {
    const { store, stateOf } = storeOf({ maxEntries: 3 });
    for (const claim of [claimOf("a"), claimOf("b"), { ...claimOf("c"), scope: "other" }]) await store.begin(claim);
    const error = await store.begin(claimOf("d")).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(SluiceError);
    expect(error).toMatchObject({ code: "store-unavailable", isCallerError: false });
    for (const key of ["a", "b"]) expect(await stateOf(key)).toBe("in-progress");
    expect(await store.complete({ scope: "user", key: "b" }, "b", responseOf(1), TTL_MS)).toBe(true);
    expect(await stateOf("d")).toBe("started");
    expect(store.evictions).toBe(1);
  });

  it("makes room with expired and abandoned entries before it evicts a response", async () => {
    const { clock, store, run, stateOf } = storeOf({ maxEntries: 3 });
    await run("response");
    await store.begin(claimOf("abandoned"));
    clock.advance(LEASE_MS);
    await store.begin(claimOf("running"));
    expect(await stateOf("new")).toBe("started");
    expect([store.size, store.evictions]).toEqual([3, 0]);
    expect(await stateOf("response")).toBe("completed");
    expect(await stateOf("running")).toBe("in-progress");
    clock.advance(TTL_MS);
    expect(await stateOf("later")).toBe("started");
    expect([store.size, store.evictions]).toEqual([1, 0]);
  });

  it("evicts nothing for a response that can't fit, and keeps its claim", async () => {
    const { store, run, stateOf } = storeOf({ maxBytes: 20_000 });
    await run("a", 1000);
    await store.begin(claimOf("b"));
    // An error of the caller, which stores the status alone: a failure of the store would lose the response.
    await expect(store.complete({ scope: "user", key: "b" }, "b", responseOf(30_000), TTL_MS)).rejects.toMatchObject({
      code: "out-of-range",
      isCallerError: true,
    });
    expect(await stateOf("b")).toBe("in-progress");
    expect(await stateOf("a")).toBe("completed");
    // The caller can still record that there was a response.
    const marker = { status: 200, headers: {}, body: null };
    expect(await store.complete({ scope: "user", key: "b" }, "b", marker, TTL_MS)).toBe(true);
  });

  it("counts its bytes down to 0", async () => {
    const { clock, store, run } = storeOf({ maxEntries: 100 });
    for (let i = 0; i < 100; i++) await run(`k${i}`, i);
    await Promise.all(
      Array.from({ length: 100 }, async (_, i) => {
        clock.advance(TTL_MS);
        await store.begin(claimOf(`k${i}`));
        await store.release({ scope: "user", key: `k${i}` }, `k${i}`);
      }),
    );
    expect([store.size, store.bytes]).toEqual([0, 0]);
  });
});

describe("memoryIdempotencyStore", () => {
  it("holds 10 000 entries by default", async () => {
    const store = memoryIdempotencyStore();
    for (let i = 0; i < 10_001; i++) {
      await store.begin(claimOf(`k${i}`));
      await store.complete({ scope: "user", key: `k${i}` }, `k${i}`, responseOf(0), TTL_MS);
    }
    expect([store.size, store.evictions]).toEqual([10_000, 1]);
  });

  it.each([
    [{ maxEntries: 0 }, "maxEntries"],
    [{ maxBytes: 1.5 }, "maxBytes"],
    [{ clock: {} as never }, "clock"],
    [{ maxKeys: 5 } as never, "maxKeys"],
  ])("rejects %j", (options, option) => {
    expect(() => memoryIdempotencyStore(options)).toThrow(expect.objectContaining({ option }));
  });
});
