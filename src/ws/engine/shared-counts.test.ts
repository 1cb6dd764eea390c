/** Tests the counts of open connections that all processes share, on a store that is slow or fails. Time is fake. */
import { concurrency, createLimiter, type OnStoreError } from "sluice";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { type FlakyStore, flakyStore } from "../../../test/flaky-store.ts";
import { SharedCounts } from "./shared-counts.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function setUp(store: FlakyStore, limit: number, onStoreError: OnStoreError = "local") {
  const limiter = createLimiter({ policy: concurrency(limit, { name: "open" }), store, onStoreError });
  return { limiter, counts: new SharedCounts("maxOpenPerUser", limiter) };
}

it("counts connections that open while the last one closes", async () => {
  const store = flakyStore();
  const { limiter, counts } = setUp(store, 10);
  const first = await counts.acquire("u");
  const { apply } = store;
  store.apply = async (groups, call) => {
    await new Promise((resolve) => setTimeout(resolve, 5));
    return apply(groups, call);
  };
  first.release?.();
  const second = counts.acquire("u");
  // The lease is released, and that of the second connection is being made.
  await vi.advanceTimersByTimeAsync(7);
  const third = counts.acquire("u");
  await vi.advanceTimersByTimeAsync(50);
  store.apply = apply;
  expect((await limiter.peek("u")).held).toBe(2);
  (await second).release?.();
  await vi.advanceTimersByTimeAsync(50);
  expect((await limiter.peek("u")).held).toBe(1);
  (await third).release?.();
  await vi.advanceTimersByTimeAsync(50);
  expect((await limiter.peek("u")).held).toBeUndefined();
});

it("keeps nothing of keys whose connections could not be counted", async () => {
  const store = flakyStore();
  store.mode = "fail";
  const { counts } = setUp(store, 10, "throw");
  for (let i = 0; i < 20; i++)
    await expect(counts.acquire(`u${i}`)).rejects.toMatchObject({ code: "store-unavailable" });
  expect(counts.size).toBe(0);
});

it.each(["open", "local"] as const)("counts in the store again after an outage (%s)", async (onStoreError) => {
  const store = flakyStore();
  store.mode = "fail";
  const { limiter, counts } = setUp(store, 3, onStoreError);
  const acquired = [await counts.acquire("u"), await counts.acquire("u")];
  store.mode = "decide";
  await vi.advanceTimersByTimeAsync(10_000);
  for (let i = 0; i < 5; i++) acquired.push(await counts.acquire("u"));
  expect(acquired.filter(({ release }) => release)).toHaveLength(3);
  expect((await limiter.peek("u")).held).toBe(3);
  for (const { release } of acquired) release?.();
  await vi.advanceTimersByTimeAsync(50);
  expect((await limiter.peek("u")).held).toBeUndefined();
  expect(counts.size).toBe(0);
});
