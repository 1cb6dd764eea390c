import { type Decision, type Denied, memoryRateLimiter } from "sluice";
import { tooManyRequests } from "sluice/http";
import { parseItem } from "structured-headers";
import { describe, expect, it } from "vitest";

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

describe("tooManyRequests", () => {
  const policy = memoryRateLimiter({ capacity: 10, tokensPerSecond: 5, name: "p" }).getPolicy();

  it("returns a 429 with Retry-After, no-store and a problem document", () => {
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
      retryAfterMs: 200,
    });
  });

  it("has the exact wait in the problem document, also if the rest of it is cached (issue 30)", () => {
    const waitOf = (parts: object, accept?: string) => {
      const { body } = tooManyRequests(denial(parts), policy, { accept });
      return accept === undefined ? (JSON.parse(body) as { retryAfterMs?: number }).retryAfterMs : body;
    };
    for (const ms of [1, 200, 1234, 86_400_000]) expect(waitOf({ retryAfterMs: ms })).toBe(ms);
    expect(waitOf({ retryAfterMs: 5000, earliestRetryMs: 300 })).toBe(300);
    expect(waitOf({ retryAfterMs: 0.4 })).toBe(1);
    for (const ms of [null, undefined, Infinity, Number.NaN]) expect(waitOf({ retryAfterMs: ms })).toBeUndefined();
    expect(waitOf({ retryAfterMs: 1000, unavailable: true })).toBe(1000);
    expect(waitOf({}, "text/plain")).toBe("Quota Exceeded. Limit of 10 requests per 2 s reached.\n");
  });

  it("rounds Retry-After up to whole seconds >= 1", () => {
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

  it("omits Retry-After and sets retryable: false if the cost can never fit", () => {
    const { status, headers, body } = tooManyRequests(denial({ retryAfterMs: null, remaining: 10 }), policy);
    expect(status).toBe(429);
    expect(headers).not.toHaveProperty("Retry-After");
    expect(JSON.parse(body)).toMatchObject({ retryable: false, detail: expect.stringContaining("never") });
  });

  it("returns a 503 without RateLimit fields if the store was unavailable", () => {
    const { status, headers, body } = tooManyRequests(denial({ unavailable: true, retryAfterMs: 1000 }), policy);
    expect(status).toBe(503);
    expect(Object.keys(headers)).toEqual(["Retry-After", "Cache-Control", "Content-Type"]);
    expect(JSON.parse(body)).toMatchObject({ status: 503, title: "Temporary Reduced Capacity" });
  });

  it("describes the policy that denied if the policies of a limiter deny one at a time (issue 13)", () => {
    const policies = [
      memoryRateLimiter({ capacity: 60, tokensPerSecond: 1, name: "edge ring" }).getPolicy(),
      memoryRateLimiter({ capacity: 1800, tokensPerSecond: 1, name: "exact ring" }).getPolicy(),
    ];
    for (const [policy, limit] of [
      ["edge ring", 60],
      ["exact ring", 1800],
      ["edge ring", 60],
    ] as const) {
      for (const accept of [undefined, "text/plain"]) {
        const { body } = tooManyRequests(denial({ policy, limit }), policies, { accept });
        expect(body).toContain(`Limit of ${limit} requests per ${limit} s reached.`);
      }
      const { body } = tooManyRequests(denial({ policy, limit }), policies);
      expect(JSON.parse(body)["violated-policies"]).toEqual([policy]);
    }
  });

  it("lists only the policies that denied, each once", () => {
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
    [`text/plain,${",".repeat(2000)}`, "application/problem+json"],
  ])("returns for Accept %s a body of type %s", (accept, type) => {
    const { headers, body } = tooManyRequests(denial(), policy, { accept });
    expect(headers["Content-Type"]).toBe(type);
    expect(body).toContain("Limit of 10 requests per 2 s reached.");
  });
});
