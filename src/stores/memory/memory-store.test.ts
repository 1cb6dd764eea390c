/** The memory store against the contract, and what is its own: bounds, eviction, time, disposal. */
import { createLimiter, memoryRateLimiter, memoryStore } from "sluice";
import { describeRateLimiter, fakeClock, storeSuite } from "sluice/testing";
import { describe, expect, it } from "vitest";

storeSuite(
  "memory",
  () => {
    const clock = fakeClock();
    return { store: memoryStore({ clock, maxKeys: 500 }), advance: clock.advance, maxKeys: 500 };
  },
  { describe, it },
);

describeRateLimiter(
  "memoryRateLimiter",
  (policy) => {
    const clock = fakeClock();
    return { limiter: memoryRateLimiter(policy, { clock }), advance: clock.advance };
  },
  { describe, it },
);

describeRateLimiter("createLimiter on the system's time", (policy) => createLimiter({ policy }), { describe, it });
