/** A memory store that is full: who loses responses, and that nothing else fails. */
import { type IdempotencyClaim, memoryIdempotencyStore, type StoredResponse } from "sluice/idempotency";
import { fakeClock } from "sluice/testing";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { codeOf, serverOf } from "./payment-server.ts";

const TTL_MS = 86_400_000;
const clock = { now: () => Date.now() };

function claimOf(scope: string, key: string): IdempotencyClaim {
  return { scope, key, fingerprint: "f", owner: key, leaseMs: 30_000, ttlMs: TTL_MS };
}

function responseOf(bytes: number): StoredResponse {
  return { status: 201, headers: {}, body: new Uint8Array(bytes) };
}

describe("one scope that writes as fast as it can", () => {
  /** A store with one response of each of some victims, and an attacker. */
  async function attacked(options: { maxEntries?: number; maxBytes?: number }, bytes: number, victims = 5) {
    const store = memoryIdempotencyStore({ ...options, clock: fakeClock() });
    const run = async (scope: string, key: string, size: number) => {
      await store.begin(claimOf(scope, key));
      expect(await store.complete({ scope, key }, key, responseOf(size), TTL_MS)).toBe(true);
    };
    const names = Array.from({ length: victims }, (_, i) => `victim ${i}`);
    for (const name of names) await run(name, "payment", 2000);
    const evicted = new Set<string>();
    store.onEviction = (scope) => void evicted.add(scope);
    for (let i = 0; i < 3000; i++) await run("attacker", `k${i}`, bytes);
    const kept = [];
    for (const name of names) kept.push(await store.read({ scope: name, key: "payment" }, "f"));
    return { store, kept: kept.filter(Boolean).length, evicted: [...evicted] };
  }

  it.each([
    ["many small responses", { maxEntries: 100 }, 10],
    ["large responses", { maxBytes: 1_000_000 }, 60_000],
    ["small responses in a store that is limited by bytes", { maxBytes: 300_000 }, 10],
  ])("evicts its own responses only, with %s", async (_, options, bytes) => {
    const { store, kept, evicted } = await attacked(options, bytes);
    expect([kept, evicted]).toEqual([5, ["attacker"]]);
    expect(store.evictions).toBeGreaterThan(1000);
  });

  it.each([
    ["entries", { maxEntries: 100 }],
    ["bytes", { maxBytes: 100_000 }],
  ])("has at most half of the %s for requests in progress, so that others keep their responses", async (_, options) => {
    const clock = fakeClock();
    const store = memoryIdempotencyStore({ ...options, clock });
    const codes = new Set<unknown>();
    const claim = async (count: number, from = 0) => {
      let claimed = 0;
      for (let i = from; i < from + count; i++) {
        await store.begin(claimOf("attacker", `k${i}`)).then(
          () => claimed++,
          ({ code }) => codes.add(code),
        );
      }
      return claimed;
    };
    const claimed = await claim(200);
    expect(claimed).toBeGreaterThan(45);
    expect(claimed).toBeLessThan(60);
    expect([...codes]).toEqual(["store-unavailable"]);
    for (let i = 0; i < 20; i++) {
      const key = { scope: `user ${i}`, key: "payment" };
      await store.begin(claimOf(key.scope, key.key));
      await store.complete(key, key.key, responseOf(10), TTL_MS);
    }
    expect(store.evictions).toBe(0);
    // Claims whose lease has ended are not in progress.
    clock.advance(30_001);
    expect(await claim(10, 1000)).toBe(10);
  });

  it("is found without a search: a full store of 100 000 scopes evicts in microseconds", async () => {
    const store = memoryIdempotencyStore({ maxEntries: 100_000, maxBytes: 2 ** 30, clock: fakeClock() });
    const run = async (scope: string, key: string) => {
      await store.begin(claimOf(scope, key));
      await store.complete({ scope, key }, key, responseOf(10), TTL_MS);
    };
    for (let i = 0; i < 100_000; i++) await run(`user ${i}`, "k");
    const start = performance.now();
    for (let i = 0; i < 2000; i++) await run(`user ${i}`, `more-${i}`);
    // A search through all scopes would take more than a millisecond each.
    expect((performance.now() - start) / 2000).toBeLessThan(0.5);
    expect([store.size, store.evictions]).toEqual([100_000, 2000]);
  });
});

describe("a full memory store behind idempotent", () => {
  beforeEach(() => void vi.useFakeTimers({ now: 1_000_000 }));
  afterEach(() => void vi.useRealTimers());

  it("rejects requests that do not fit, stores every finished response, and starts again at once", async () => {
    const store = memoryIdempotencyStore({ maxEntries: 10, clock });
    const { send, run, runs, events } = serverOf({ store, replayLimit: "1000/m" });
    // One scope could not have more than half of the store in progress.
    const payments = Array.from({ length: 10 }, (_, i) => ({ key: `k${i}`, user: i < 5 ? "ada" : "bob" }));
    const sent = payments.map(send);
    await vi.advanceTimersByTimeAsync(0);
    // Many more than open a circuit.
    for (let i = 0; i < 30; i++) {
      const full = await send({ key: `full ${i}`.replace(" ", "-") });
      expect([full.status, await codeOf(full)]).toEqual([503, "store-unavailable"]);
    }
    for (const { finish } of runs) finish();
    await vi.advanceTimersByTimeAsync(5);
    expect((await Promise.all(sent)).map(({ status }) => status)).toEqual(Array(10).fill(201));
    const again = await Promise.all(payments.map(send));
    expect(again.map((response) => response.headers.get("Idempotent-Replayed"))).toEqual(Array(10).fill("true"));
    expect((await run({ key: "next" })).status).toBe(201);
    expect([runs.length, events.map(({ type }) => type)]).toEqual([11, ["evicted"]]);
  });

  it("stores the status of a response that its bytes can't hold, so a retry does not run", async () => {
    const store = memoryIdempotencyStore({ maxBytes: 4000, clock });
    const { run, runs, events } = serverOf({ store });
    expect((await run({}, new Response("x".repeat(10_000), { status: 201 }))).status).toBe(201);
    const retry = await run();
    expect([retry.status, await codeOf(retry), runs.length]).toEqual([409, "response-not-stored", 1]);
    expect(events).toMatchObject([{ type: "response-not-stored", reason: "refused" }]);
  });

  it("emits evicted for the first response, then once a minute with the number", async () => {
    const store = memoryIdempotencyStore({ maxEntries: 2, clock });
    const { run, events } = serverOf({ store });
    for (let i = 0; i < 12; i++) await run({ key: `k${i}` });
    expect(events).toEqual([{ type: "evicted", policy: "", scope: "ada", count: 1 }]);
    await vi.advanceTimersByTimeAsync(60_000);
    await run({ key: "later" });
    expect(events).toEqual([
      { type: "evicted", policy: "", scope: "ada", count: 1 },
      { type: "evicted", policy: "", scope: "ada", count: 10 },
    ]);
  });

  it("warns once without onEvent", async () => {
    const warned = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    const store = memoryIdempotencyStore({ maxEntries: 2, clock });
    const { run } = serverOf({ store, onEvent: undefined as never });
    for (let i = 0; i < 12; i++) await run({ key: `k${i}` });
    expect(warned.mock.calls).toMatchObject([
      [expect.stringContaining("is full and evicted a response"), { code: "SLUICE_RESPONSE_EVICTED" }],
    ]);
    warned.mockRestore();
  });
});
