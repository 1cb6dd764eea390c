/** The wire: exact bytes, and an independent parser of structured fields reads back what we meant. */
import fc from "fast-check";
import {
  combine,
  createLimiter,
  type Decision,
  type Denied,
  memoryRateLimiter,
  memoryStore,
  tokenBucket,
} from "sluice";
import { rateLimitHeaders, tooManyRequests } from "sluice/http";
import { parseItem, parseList } from "structured-headers";
import { describe, expect, it } from "vitest";

const clock = { now: () => 1_800_000_000_000 };

function denial(parts: Partial<Denied> = {}): Denied {
  return {
    allowed: false,
    policy: "p",
    limit: 10,
    remaining: 0,
    resetAfterMs: 2000,
    nextAfterMs: 200,
    retryAfterMs: 200,
    ...parts,
  };
}

describe("rateLimitHeaders", () => {
  it("writes one policy in draft-8 syntax", () => {
    const limiter = memoryRateLimiter(tokenBucket("5/s", { burst: 10, name: "api" }), { clock });
    expect(rateLimitHeaders(limiter.consumeSync("k", 3), limiter.getPolicy())).toEqual({
      "RateLimit-Policy": '"api";q=10;w=2',
      RateLimit: '"api";r=7;t=1',
    });
  });

  it("lists every policy of a combination in order", () => {
    const store = memoryStore({ clock });
    const burst = createLimiter({ policy: { capacity: 100, tokensPerSecond: 100 / 60, name: "burst" }, store });
    const daily = createLimiter({
      policy: { algorithm: "fixed-window", limit: 5000, windowMs: "1d", name: "daily" },
      store,
    });
    const both = combine([burst, daily]);
    const headers = rateLimitHeaders(both.consumeSync("k"), both.getPolicies?.() ?? []);
    expect(headers["RateLimit-Policy"]).toBe('"burst";q=100;w=60, "daily";q=5000;w=86400');
    expect(headers.RateLimit).toMatch(/^"burst";r=99;t=1, "daily";r=4999;t=\d+$/);
  });

  it("leaves t out when the bucket is full", () => {
    const limiter = memoryRateLimiter({ capacity: 2, tokensPerSecond: 1, name: "full" }, { clock });
    expect(rateLimitHeaders(limiter.consumeSync("k", 0), limiter.getPolicy()).RateLimit).toBe('"full";r=2');
  });

  it("says nothing when the figures are not known", () => {
    const limiter = memoryRateLimiter({ capacity: 2, tokensPerSecond: 1 }, { clock });
    const known = limiter.consumeSync("k");
    for (const unknown of [{ degraded: true }, { unknown: true }] as Partial<Decision>[]) {
      expect(rateLimitHeaders({ ...known, ...unknown } as Decision, limiter.getPolicy())).toEqual({});
    }
    expect(rateLimitHeaders(denial({ unavailable: true }), limiter.getPolicy())).toEqual({});
  });

  it("is read back by an independent parser, whatever the name", () => {
    const printable = fc.string({ unit: fc.constantFrom(..." !\"#$%&\\'();=,{}~azAZ09"), minLength: 1, maxLength: 64 });
    fc.assert(
      fc.property(printable, fc.integer({ min: 1, max: 2 ** 40 }), fc.nat(1000), (name, capacity, cost) => {
        const limiter = memoryRateLimiter({ capacity, tokensPerSecond: "1000/s", name }, { clock });
        const decision = limiter.consumeSync("k", Math.min(cost, capacity));
        const headers = rateLimitHeaders(decision, limiter.getPolicy());
        const [[policyName, policy]] = parseList(headers["RateLimit-Policy"] ?? "") as [[string, Map<string, number>]];
        const [[quotaName, quota]] = parseList(headers.RateLimit ?? "") as [[string, Map<string, number>]];
        expect([policyName, quotaName]).toEqual([name, name]);
        expect(policy.get("q")).toBe(capacity);
        expect(policy.get("w")).toBe(Math.max(1, Math.ceil(limiter.getPolicy().windowMs / 1000)));
        expect(quota.get("r")).toBe(decision.remaining);
        expect(quota.get("t")).toBe(decision.nextAfterMs > 0 ? Math.ceil(decision.nextAfterMs / 1000) : undefined);
      }),
      { numRuns: 2000 },
    );
  });

  it("clamps numbers to the 15 digits of a structured-field integer", () => {
    const limiter = memoryRateLimiter({ algorithm: "fixed-window", limit: 4e15, windowMs: 1 }, { clock });
    const headers = rateLimitHeaders(limiter.consumeSync("k"), limiter.getPolicy());
    const [[, quota]] = parseList(headers.RateLimit ?? "") as [[string, Map<string, number>]];
    expect(quota.get("r")).toBe(999_999_999_999_999);
  });
});

describe("tooManyRequests", () => {
  const policy = memoryRateLimiter({ capacity: 10, tokensPerSecond: 5, name: "p" }).getPolicy();

  it("is a 429 with Retry-After, no-store and a problem", () => {
    const { status, headers, body } = tooManyRequests(denial(), policy);
    expect(status).toBe(429);
    expect(headers).toEqual({
      "Retry-After": "1",
      "RateLimit-Policy": '"p";q=10;w=2',
      RateLimit: '"p";r=0;t=1',
      "Cache-Control": "no-store",
      "Content-Type": "application/problem+json",
    });
    expect(JSON.parse(body)).toEqual({
      type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
      title: "Quota Exceeded",
      status: 429,
      detail: "Limit of 10 requests per 2 s reached.",
      "violated-policies": ["p"],
    });
  });

  it("has a Retry-After that is a whole number >= 1 and never too soon", () => {
    for (const [ms, expected] of [
      [1, "1"],
      [999, "1"],
      [1000, "1"],
      [1001, "2"],
      [86_400_000, "86400"],
    ] as const) {
      const value = tooManyRequests(denial({ retryAfterMs: ms }), policy).headers["Retry-After"] ?? "";
      expect(value).toBe(expected);
      expect(parseItem(value)[0]).toBe(Number(expected));
    }
  });

  it("has no Retry-After when the cost can never fit, and says so", () => {
    const { status, headers, body } = tooManyRequests(denial({ retryAfterMs: null, remaining: 10 }), policy);
    expect(status).toBe(429);
    expect(headers).not.toHaveProperty("Retry-After");
    expect(JSON.parse(body)).toMatchObject({ retryable: false, detail: expect.stringContaining("never") });
  });

  it("is a 503 without RateLimit fields when the store could not be asked", () => {
    const { status, headers, body } = tooManyRequests(denial({ unavailable: true, retryAfterMs: 1000 }), policy);
    expect(status).toBe(503);
    expect(Object.keys(headers)).toEqual(["Retry-After", "Cache-Control", "Content-Type"]);
    expect(JSON.parse(body)).toMatchObject({ status: 503, title: "Temporary Reduced Capacity" });
  });

  it("names only the policies that denied, each once", () => {
    const fine: Decision = { allowed: true, policy: "fine", limit: 1, remaining: 1, resetAfterMs: 0, nextAfterMs: 0 };
    const whole = denial({ parts: [fine, denial(), denial()] });
    expect(JSON.parse(tooManyRequests(whole, policy).body)["violated-policies"]).toEqual(["p"]);
  });

  it.each([
    [undefined, "application/problem+json"],
    ["*/*", "application/problem+json"],
    ["application/json", "application/problem+json"],
    ["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/problem+json"],
    ["text/plain", "text/plain; charset=utf-8"],
    ["text/*;q=0.5, application/json;q=0.1", "text/plain; charset=utf-8"],
    ["text/plain, */*;q=0.1", "text/plain; charset=utf-8"],
    ["application/problem+json, text/plain", "application/problem+json"],
    ["application/json;q=0, text/plain;q=0.1", "text/plain; charset=utf-8"],
    ["text/plain;q=nonsense", "application/problem+json"],
  ])("answers Accept %s with %s", (accept, type) => {
    const { headers, body } = tooManyRequests(denial(), policy, { accept });
    expect(headers["Content-Type"]).toBe(type);
    expect(body).toContain("Limit of 10 requests per 2 s reached.");
  });
});
