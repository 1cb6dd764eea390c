/** Header fields of random limits, checked with an independent structured-field parser. */
import fc from "fast-check";
import { combine, createLimiter, type Decision, memoryRateLimiter, memoryStore, type Policy } from "sluice";
import { type HeaderMode, rateLimitHeaders, tooManyRequests } from "sluice/http";
import { fakeClock } from "sluice/testing";
import { parseDictionary, parseList } from "structured-headers";
import { describe, expect, it } from "vitest";

describe("the fields of random limits", () => {
  const name = fc.string({ unit: fc.constantFrom(..." !\"#$%&\\'();=,{}~azAZ09:*"), minLength: 1, maxLength: 20 });
  const rate = fc.record({ count: fc.integer({ min: 1, max: 1000 }), unit: fc.constantFrom("s", "m", "h", "d") });
  const bucket = fc.record({ rate, burst: fc.integer({ min: 1, max: 500 }) });
  const window = fc.record({ limit: fc.integer({ min: 1, max: 500 }), windowMs: fc.integer({ min: 1, max: 10 ** 8 }) });
  const policy = fc.oneof(
    bucket.map(
      ({ rate: { count, unit }, burst }): Policy => ({
        capacity: Math.max(burst, count),
        tokensPerSecond: `${count}/${unit}` as never,
      }),
    ),
    bucket.map(
      ({ rate: { count, unit }, burst }): Policy => ({
        algorithm: "leaky-bucket",
        capacity: Math.max(burst, count),
        leaksPerSecond: `${count}/${unit}` as never,
      }),
    ),
    fc
      .tuple(fc.constantFrom("fixed-window", "sliding-window", "sliding-log"), window)
      .map(([algorithm, numbers]) => ({ algorithm, ...numbers }) as Policy),
  );
  const limits = fc.uniqueArray(fc.tuple(policy, name), { minLength: 1, maxLength: 4, selector: ([, name]) => name });
  const steps = fc.array(fc.tuple(fc.integer({ min: 0, max: 100_000 }), fc.integer({ min: 0, max: 600 })), {
    minLength: 1,
    maxLength: 6,
  });

  it("are parsed by an independent parser, and a client that waits for Retry-After is admitted", () => {
    let denials = 0;
    fc.assert(
      fc.property(
        limits,
        steps,
        fc.constantFrom<HeaderMode>("draft-8", "draft-7", "draft-6"),
        (limits, steps, mode) => {
          const clock = fakeClock();
          const store = memoryStore({ clock });
          const limiters = limits.map(([policy, name]) => createLimiter({ policy: { ...policy, name }, store }));
          const limiter = combine(limiters);
          const policies = limiter.getPolicies?.() ?? [];
          for (const [ms, cost] of steps) {
            clock.advance(ms);
            const decision = limiter.consumeSync("k", cost);
            const fields = decision.allowed
              ? rateLimitHeaders(decision, policies, { mode })
              : tooManyRequests(decision, policies, { headers: { mode } }).headers;
            if (mode === "draft-8") {
              const parsed = parseList(fields.RateLimit ?? "") as [string, Map<string, number>][];
              const stated = parseList(fields["RateLimit-Policy"] ?? "") as [string, Map<string, number>][];
              expect(parsed.map(([name]) => name)).toEqual(limits.map(([, name]) => name));
              expect(stated.map(([name]) => name)).toEqual(limits.map(([, name]) => name));
              parsed.forEach(([, parameters], i) => {
                const { remaining, nextAfterMs } = (decision.parts ?? [decision])[i] as Decision;
                expect(parameters.get("r")).toBe(remaining);
                const t = parameters.get("t");
                expect(t).toBe(nextAfterMs === 0 ? undefined : Math.max(1, Math.ceil(nextAfterMs / 1000)));
              });
            } else if (mode === "draft-7") {
              const parsed = parseDictionary(fields.RateLimit ?? "");
              expect([...parsed.keys()]).toEqual(["limit", "remaining", "reset"]);
              expect(parseList(fields["RateLimit-Policy"] ?? "").length).toBeLessThanOrEqual(limits.length);
            } else {
              for (const name of ["Limit", "Remaining", "Reset"]) expect(fields[`RateLimit-${name}`]).toMatch(/^\d+$/);
            }
            if (decision.allowed) continue;
            denials++;
            if (decision.retryAfterMs === null) {
              expect(fields).not.toHaveProperty("Retry-After");
              continue;
            }
            const wait = Number(fields["Retry-After"]);
            expect(fields["Retry-After"]).toMatch(/^[1-9]\d*$/);
            clock.advance(wait * 1000);
            expect(limiter.consumeSync("k", cost).allowed).toBe(true);
          }
        },
      ),
      { numRuns: 10_000 },
    );
    expect(denials).toBeGreaterThan(1000);
  }, 120_000);

  it("have the time until remaining grows in t", () => {
    fc.assert(
      fc.property(policy, fc.integer({ min: 1, max: 500 }), (policy, cost) => {
        const clock = fakeClock();
        const limiter = memoryRateLimiter(policy, { clock });
        const first = limiter.consumeSync("k", Math.min(cost, limiter.getPolicy().limit));
        const [[, parsed]] = parseList(rateLimitHeaders(first, limiter.getPolicy()).RateLimit ?? "") as [
          [string, Map<string, number>],
        ];
        clock.advance((parsed.get("t") ?? 0) * 1000);
        expect(limiter.consumeSync("k", 0).remaining).toBeGreaterThan(first.remaining);
      }),
      { numRuns: 2000 },
    );
  });
});
