/** Tests policies as text: parsing, canonical names and error messages. */

import { describe, expect, it } from "vitest";
import type { Policy } from "../core/policy.ts";
import { algorithms } from "../holds/all-algorithms.ts";
import { memoryRateLimiter } from "../memory/rate-limiter.ts";
import { createLimiter } from "../remote/create-limiter.ts";
import { compilePolicy } from "./compile-policy.ts";
import { parsePolicy, policyFromText } from "./policy-text.ts";
import { leakyBucket, tokenBucket } from "./shorthand.ts";
import type { PolicyText } from "./text-type.ts";

describe("policies as text", () => {
  it("chooses the algorithm by a word after the rate", () => {
    const of = (text: PolicyText) => {
      const { algorithm, limit, windowMs } = memoryRateLimiter(text).getPolicy();
      return [algorithm, limit, windowMs];
    };
    expect(of("100/m")).toEqual(["token-bucket", 100, 60_000]);
    expect(of("10/s burst 50")).toEqual(["token-bucket", 50, 5000]);
    expect(of("10/s queue 20")).toEqual(["leaky-bucket", 20, 2000]);
    expect(of("1000/d fixed")).toEqual(["fixed-window", 1000, 86_400_000]);
    expect(of("100/m sliding")).toEqual(["sliding-window", 100, 60_000]);
    expect(of("5/15m log")).toEqual(["sliding-log", 5, 900_000]);
  });

  it("treats long and short units as one policy with one bucket", () => {
    const names = ["100/m", "100/min", "100/minute", "100/minutes", "100/60sec", "100/60seconds"].map(
      (text) => compilePolicy(text as PolicyText).id,
    );
    expect(new Set(names)).toEqual(new Set(["b100/m,100"]));
    const pairs = [
      ["3/day", "3/d"],
      ["3/2hours", "3/2h"],
      ["9/5milliseconds", "9/5ms burst 9"],
      ["1/15m", "4/h burst 1"],
    ] as const;
    for (const [one, other] of pairs) {
      const [a, b] = [compilePolicy(one), compilePolicy(other)];
      expect([a.id, a.qualifiedName, a.fingerprint]).toEqual([b.id, b.qualifiedName, b.fingerprint]);
    }
    expect(compilePolicy({ algorithm: "fixed-window", limit: 3, windowMs: "2days" }).windowMs).toBe(172_800_000);
  });

  it("is the name of an unnamed policy, as it was written, and no part of its stored key", () => {
    for (const text of ["1/15m", "100/min", "1000/day fixed", "10/s queue 20", "5 concurrent lease 30s"]) {
      expect(compilePolicy(policyFromText("text", text, algorithms))).toMatchObject({
        name: text,
        resolved: { name: text },
      });
    }
    expect(compilePolicy("1/15m").id).toBe("b4/h,1");
    expect(compilePolicy(tokenBucket("1/15m")).name).toBe("1/15m");
    expect(compilePolicy(tokenBucket("1/15m", { burst: 2 })).name).toBe("1/15m burst 2");
    expect(compilePolicy(tokenBucket("1/15m", { name: "mail" })).name).toBe("mail");
    expect(compilePolicy(leakyBucket("1/15m")).name).toBe("1/15m queue 1");
    // A copy with other numbers has another text.
    expect(compilePolicy({ ...tokenBucket("1/15m"), capacity: 3 }).name).toBe("4/h burst 3");
    expect(compilePolicy({ capacity: 1, tokensPerSecond: "1/15m" }).name).toBe("4/h burst 1");
  });

  it("parses the name of every unnamed policy back to the same policy", () => {
    const text = "4294967291/999999999999998ms burst 9";
    expect(compilePolicy(parsePolicy(text)).name).toBe(text);
    const random = (most: number) => 1 + Math.floor(Math.random() * most);
    for (let i = 0; i < 20_000; i++) {
      const limit = random(random(2) === 1 ? 20 : 100_000);
      const every = random(random(2) === 1 ? 100 : 1_000_000_000);
      const policies: Policy[] = [
        { algorithm: "leaky-bucket", capacity: limit, leaksPerSecond: `${random(limit)}/${every}ms` },
        { capacity: limit, tokensPerSecond: `${random(limit)}/${every}ms` },
        { algorithm: "fixed-window", limit, windowMs: every },
        { algorithm: "sliding-window", limit: random(1000), windowMs: every },
        { algorithm: "sliding-log", limit: random(10_000), windowMs: every },
      ];
      for (const policy of policies) {
        const first = compilePolicy(policy);
        expect(compilePolicy(parsePolicy(first.name)), first.name).toEqual(first);
      }
    }
  });

  it.each([
    ["100/week", '"100/7d"'],
    ["100/month", '"100/30d"'],
    ["0/s", "count of at least 1"],
    ["1.5/s", 'write "3/2s"'],
    ["10 per second", '"10/s"'],
    ["100 / m", '"100/m"'],
    ["100/M", '"100/m"'],
    ["fast", "units: ms, s, m, h and d"],
    ["10/s burst", "10/s burst 50"],
    ["10/s burst 1.5", "10/s burst 50"],
    ["10/s fixed 5", "1000/d fixed"],
    ["10/s  burst 5", "a rate such as"],
    ["", "a rate such as"],
    ["100/constructor", "units: ms"],
  ])("rejects %j and suggests a valid text", (text, hint) => {
    expect(() => parsePolicy(text)).toThrow(
      expect.objectContaining({ code: "invalid-option", option: "policy", message: expect.stringContaining(hint) }),
    );
    expect(() => createLimiter({ policy: text as PolicyText })).toThrow(hint);
  });

  it("rejects the arguments of other libraries and suggests the right form", () => {
    const wrong = tokenBucket as unknown as (...args: unknown[]) => unknown;
    expect(() => wrong(10, "1 s")).toThrow('"10/s"');
    expect(() => wrong({ capacity: 1, tokensPerSecond: 1 }, { name: "x" })).toThrow(
      "Put name, prefix and share into the policy object",
    );
    expect(() => tokenBucket("5/s", { burst: 0 })).toThrow(/^burst must be /);
  });
});
