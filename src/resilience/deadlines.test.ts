/** Deadlines of many calls: how much of the event loop they take when all of them expire at once. */
import { createLimiter, type Store } from "sluice";
import { expect, it } from "vitest";
import { Deadlines, type Timed } from "./deadlines.ts";

const hanging = (): Store => ({
  consistency: "exact",
  apply: () => new Promise(() => {}),
  inspect: () => Promise.reject(new Error("not used")),
  dispose: async () => {},
});

it("expires a storm of late calls in slices, with turns of the event loop in between (issue 13)", async () => {
  const deadlines = new Deadlines();
  let [expired, atOnce, most] = [0, 0, 0];
  const calls = Array.from({ length: 10_000 }, (): Timed => {
    const call: Timed = {
      due: 0,
      place: 0,
      expire() {
        deadlines.remove(call);
        expired++;
        most = Math.max(most, ++atOnce);
      },
    };
    return call;
  });
  for (const call of calls) deadlines.add(call);
  while (expired < calls.length) {
    await new Promise((resolve) => setImmediate(resolve));
    atOnce = 0;
  }
  expect(expired).toBe(calls.length);
  expect(most).toBeLessThanOrEqual(500);
});

it("makes a few errors for a storm of late calls, and not one for each (issue 13)", async () => {
  const limiter = createLimiter({
    policy: { capacity: 10, tokensPerSecond: 5 },
    store: hanging(),
    deadlineMs: 20,
    onStoreError: "throw",
    onEvent: () => {},
  });
  const calls = Array.from({ length: 5000 }, (_, i) => limiter.consume(`user:${i}`));
  const settled = await Promise.allSettled(calls);
  const errors = settled.map((result) => (result.status === "rejected" ? result.reason : undefined));
  expect(errors.every((error) => error?.code === "store-unavailable")).toBe(true);
  expect(new Set(errors).size).toBeLessThanOrEqual(50);
});
