/** Tests renewals beside settlements, of several parts, and after `dispose`. Time is fake. */
import { concurrency, createLimiter, type HoldDecision, hold, holdAll, memoryStore, type Policy } from "sluice";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { flakyStore } from "../../test/flaky-store.ts";
import { partsOf } from "../core/part-charges.ts";
import { addLease, type Leased, removeLease } from "./leases.ts";

const policy: Policy = { capacity: 100, tokensPerSecond: "1/h", name: "tokens" };

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function holdOf(decision: HoldDecision) {
  if (!decision.allowed) throw new Error("denied");
  return decision.hold;
}

it("denies to renew a hold that was settled, and holds nothing again", async () => {
  const limiter = createLimiter({ policy, store: memoryStore() });
  const ownHold = holdOf(await hold(limiter, "k", 10));
  await ownHold.settle(3);
  expect(await ownHold.renew()).toMatchObject({ allowed: false, retryAfterMs: null });
  expect(await ownHold.renew({ amount: 20 })).toMatchObject({ allowed: false });
  expect((await limiter.peek("k")).held).toBeUndefined();
  expect((await limiter.peek("k")).remaining).toBe(97);
});

it("settles after a renewal in flight, which is not retried then", async () => {
  const store = flakyStore();
  const limiter = createLimiter({ policy, store, deadlineMs: 100 });
  const ownHold = holdOf(await hold(limiter, "k", 10, { forMs: "10s" }));
  store.mode = "hang";
  const renewal = ownHold.renew();
  await vi.advanceTimersByTimeAsync(50);
  const settlement = ownHold.settle(3);
  // The renewal has expired, and waits for its retry.
  await vi.advanceTimersByTimeAsync(60);
  store.mode = "decide";
  store.release();
  await vi.advanceTimersByTimeAsync(1);
  expect(await renewal).toMatchObject({ allowed: true, unknown: true });
  expect(await settlement.then(({ settled, pending }) => settled || pending)).toBe(true);
  await vi.advanceTimersByTimeAsync(2000);
  expect(await limiter.peek("k")).toMatchObject({ remaining: 97 });
  expect((await limiter.peek("k")).held).toBeUndefined();
});

it("charges the amount of a renewal in flight", async () => {
  const store = flakyStore();
  const limiter = createLimiter({ policy, store });
  const held = holdOf(await hold(limiter, "k", 10));
  const renewal = held.renew({ amount: 30 });
  expect(await held.settle()).toMatchObject({ settled: true, remaining: 70 });
  expect(await renewal).toMatchObject({ allowed: true });
});

it("leaves all parts as they were if one of them denies the new amount", async () => {
  const store = memoryStore();
  const a = createLimiter({ policy: { capacity: 100, tokensPerSecond: "1/h", name: "a" }, store });
  const b = createLimiter({ policy: { capacity: 5, tokensPerSecond: "1/h", name: "b" }, store });
  const hold = holdOf(
    await holdAll(
      [
        { limiter: a, key: "k", amount: 3 },
        { limiter: b, key: "k", amount: 3 },
      ],
      { forMs: 5000 },
    ),
  );
  await vi.advanceTimersByTimeAsync(1000);
  expect(await hold.renew({ amount: 6 })).toMatchObject({ allowed: false, policy: "b" });
  expect(hold.amount).toBe(3);
  const expected = [{ id: hold.id, amount: 3, endsAfterMs: 4000 }];
  expect([(await a.inspect("k")).holds, (await b.inspect("k")).holds]).toEqual([expected, expected]);
  expect(await hold.settle()).toMatchObject({ settled: true });
  expect([(await a.peek("k")).remaining, (await b.peek("k")).remaining]).toEqual([97, 2]);
});

it("does not renew a lease that dispose has released", async () => {
  const store = flakyStore();
  const build = () => createLimiter({ policy: concurrency(2, { leaseMs: "3s", name: "streams" }), store });
  const limiter = build();
  const ownHold = holdOf(await hold(limiter, "k"));
  await limiter.dispose();
  expect(await ownHold.renew()).toMatchObject({ allowed: false });
  expect((await build().peek("k")).held).toBeUndefined();
});

it("forgets leases that have ended, so that abandoned ones use no memory", async () => {
  const limiter = createLimiter({ policy: concurrency(2), store: memoryStore() });
  const [part] = partsOf(limiter);
  if (!part) throw new Error("no part");
  const asked = new Set<Leased>();
  const leases = Array.from({ length: 5000 }, () => {
    const lease: Leased = {
      releaseLeases: () => Promise.resolve(),
      hasEnded: () => {
        asked.add(lease);
        return true;
      },
    };
    return lease;
  });
  for (const lease of leases) addLease(part.context, lease);
  expect(asked.size).toBe(5000);
  for (const lease of leases) removeLease(part.context, lease);
});
