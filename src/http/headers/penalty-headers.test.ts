/** Tests that a penalty is in no header field, in any draft. */
import { memoryRateLimiter, penalty, strike } from "sluice";
import { type HeaderMode, rateLimitHeaders } from "sluice/http";
import { expect, it } from "vitest";

it.each(["draft-8", "draft-7", "draft-6", "legacy"] as const)("%s has no fields for a penalty alone", async (mode) => {
  const limiter = memoryRateLimiter(penalty({ blockMs: "1m" }));
  const allowed = await limiter.consume("k");
  const blocked = await strike(limiter, "k");
  for (const decision of [allowed, blocked]) {
    expect(rateLimitHeaders(decision, limiter.getPolicy(), { mode: mode satisfies HeaderMode })).toEqual({});
  }
});
