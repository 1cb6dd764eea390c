/** `getRateLimit` where a framework has its own way to pass values on. The suite covers the rest on every server. */
import { Hono } from "hono";
import type { Decision } from "sluice";
import { getRateLimit, type RateLimitVariables, rateLimit } from "sluice/hono";
import { describe, expect, it } from "vitest";

describe("getRateLimit of sluice/hono", () => {
  const policy = { capacity: 2, tokensPerSecond: "2/d", name: "api" } as const;

  it("returns the decision that c.get returns", async () => {
    const app = new Hono<{ Variables: RateLimitVariables }>()
      .use(rateLimit({ policy, key: () => "k" }))
      .get("/", (c) => {
        const decision: Decision | undefined = c.get("rateLimit");
        return c.json({ remaining: decision?.remaining, isSame: decision === getRateLimit(c) });
      });
    expect(await (await app.request("/")).json()).toEqual({ remaining: 1, isSame: true });
  });

  it("returns undefined for a request that is skipped, as c.get does", async () => {
    const app = new Hono<{ Variables: RateLimitVariables }>()
      .use(rateLimit({ policy, key: () => "k", skip: () => true }))
      .get("/", (c) => c.json([c.get("rateLimit") === undefined, getRateLimit(c) === undefined]));
    expect(await (await app.request("/")).json()).toEqual([true, true]);
  });
});
