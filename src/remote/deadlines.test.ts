/** Tests that many calls with one deadline expire without blocking the event loop. */
import { createLimiter, type Store } from "sluice";
import { expect, it } from "vitest";
import { Deadlines, type Timed } from "./deadlines.ts";

const hanging = (): Store => ({
  consistency: "exact",
  apply: () => new Promise(() => {}),
  inspect: () => Promise.reject(new Error("not used")),
  dispose: async () => {},
});

it("expires many late calls in slices that yield to the event loop (issue 13)", async () => {
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

it("shares a few errors between many late calls (issue 13)", async () => {
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
