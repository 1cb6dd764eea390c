import { equal } from "node:assert/strict";
import { memoryRateLimiter } from "sluice";
import { describeRateLimiter, fakeClock } from "sluice/testing";
import { describe, it, test } from "vitest";

test("limits with a fake clock", async () => {
  const clock = fakeClock();
  const limiter = memoryRateLimiter("1/s", { clock });
  equal((await limiter.consume("key")).allowed, true);
  equal((await limiter.consume("key")).allowed, false);
  clock.advance(1000);
  equal((await limiter.consume("key")).allowed, true);
});

describeRateLimiter(
  "memory",
  (policy) => {
    const clock = fakeClock();
    return { limiter: memoryRateLimiter(policy, { clock }), advance: clock.advance };
  },
  { describe, it },
);
