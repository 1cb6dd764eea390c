/** Tests the five algorithms against the model with random walks, and against decisions worked out by hand. */

import type { Decision, Policy } from "sluice";
import { compilePolicy, decide, type PlainState } from "sluice/algorithms";
import { describe, expect, test } from "vitest";
import { leastCount } from "../scripts/scale.js";
import type { RateAlgorithm } from "../src/testing/subject.ts";
import { createModel } from "./model.ts";
import {
  bucketSample,
  createKey,
  type Sample,
  seededRandom,
  smallSample,
  whole,
  windowSample,
} from "./model-samples.ts";
import { walk } from "./model-walk.ts";
import { SEED, STEPS } from "./settings.ts";

const NAMES = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"] as const;

describe("random walks", () => {
  const shares: Record<RateAlgorithm, number> = {
    "token-bucket": 0.25,
    "leaky-bucket": 0.2,
    "fixed-window": 0.2,
    "sliding-window": 0.2,
    "sliding-log": 0.15,
  };
  for (const name of NAMES) {
    const steps = Math.ceil(STEPS * shares[name]);
    test(`make the same decisions with a ${name} as the model`, { timeout: 120_000 + steps }, () => {
      const { steps: made, ...kinds } = walk(name, steps, SEED);
      expect(made).toBe(steps);
      // Every kind of step must have occurred.
      for (const [kind, count] of Object.entries(kinds)) expect(count, kind).toBeGreaterThan(leastCount(steps / 1000));
    });
  }
});

describe("decisions worked out by hand", () => {
  type Line = [mode: "take" | "peek" | "refund", cost: number, now: number, expected: Partial<Decision>];
  const cases: Record<string, { sample: Sample; lines: Line[] }> = {
    "token bucket: 10 at 5/s": {
      sample: bucketSample("token-bucket", 10, 5, 5n, 1000n),
      lines: [
        ["take", 4, 1000, { allowed: true, remaining: 6, resetAfterMs: 800, nextAfterMs: 200 }],
        ["take", 7, 1100, { allowed: false, remaining: 6, resetAfterMs: 700, nextAfterMs: 100, retryAfterMs: 100 }],
        ["take", 7, 1200, { allowed: true, remaining: 0, resetAfterMs: 2000, nextAfterMs: 200 }],
        ["peek", 3, 1250, { allowed: false, remaining: 0, resetAfterMs: 1950, nextAfterMs: 150, retryAfterMs: 550 }],
        ["take", 11, 1250, { allowed: false, remaining: 0, resetAfterMs: 1950, nextAfterMs: 150, retryAfterMs: null }],
        ["refund", 2, 1250, { allowed: true, remaining: 2, resetAfterMs: 1550, nextAfterMs: 150 }],
        ["take", 0, 3200, { allowed: true, remaining: 10, resetAfterMs: 0, nextAfterMs: 0 }],
      ],
    },
    "leaky bucket: a queue of 3 at 10/s": {
      sample: bucketSample("leaky-bucket", 3, 10, 10n, 1000n),
      lines: [
        ["take", 1, 5000, { allowed: true, remaining: 2, resetAfterMs: 100, nextAfterMs: 100, delayMs: 0 }],
        ["take", 1, 5000, { allowed: true, remaining: 1, resetAfterMs: 200, nextAfterMs: 100, delayMs: 100 }],
        ["take", 1, 5000, { allowed: true, remaining: 0, resetAfterMs: 300, nextAfterMs: 100, delayMs: 200 }],
        ["take", 1, 5000, { allowed: false, remaining: 0, resetAfterMs: 300, nextAfterMs: 100, retryAfterMs: 100 }],
        ["peek", 1, 5150, { allowed: true, remaining: 1, resetAfterMs: 150, nextAfterMs: 50, delayMs: 150 }],
      ],
    },
    "fixed window: 5 per second": {
      sample: windowSample("fixed-window", 5, 1000),
      lines: [
        ["take", 3, 7300, { allowed: true, remaining: 2, resetAfterMs: 700, nextAfterMs: 700 }],
        ["take", 3, 7900, { allowed: false, remaining: 2, resetAfterMs: 100, nextAfterMs: 100, retryAfterMs: 100 }],
        ["take", 3, 8000, { allowed: true, remaining: 2, resetAfterMs: 1000, nextAfterMs: 1000 }],
        // The clock steps back over a window boundary: the count stays, in a window that starts now.
        ["take", 3, 7950, { allowed: false, remaining: 2, resetAfterMs: 1000, nextAfterMs: 1000, retryAfterMs: 1000 }],
        ["refund", 9, 7960, { allowed: true, remaining: 5, resetAfterMs: 0, nextAfterMs: 0 }],
      ],
    },
    "sliding window: 10 per second": {
      sample: windowSample("sliding-window", 10, 1000),
      lines: [
        ["take", 8, 4600, { allowed: true, remaining: 2, resetAfterMs: 1400, nextAfterMs: 525 }],
        ["take", 1, 5250, { allowed: true, remaining: 3, resetAfterMs: 1750, nextAfterMs: 125 }],
        // 8 x 3/4 + 1 are in use. 5 fit when 4 of the 8 have faded, at 5500.
        ["take", 5, 5250, { allowed: false, remaining: 3, resetAfterMs: 1750, nextAfterMs: 125, retryAfterMs: 250 }],
        ["take", 5, 5500, { allowed: true, remaining: 0, resetAfterMs: 1500, nextAfterMs: 125 }],
        // 6 count for this window. All 10 fit again only when it has faded as well, at 7000.
        ["take", 10, 5500, { allowed: false, remaining: 0, resetAfterMs: 1500, nextAfterMs: 125, retryAfterMs: 1500 }],
        ["refund", 7, 5500, { allowed: true, remaining: 6, resetAfterMs: 500, nextAfterMs: 72 }],
        // The clock steps back before the window: the remaining 7 count as charged now.
        ["take", 5, 4100, { allowed: false, remaining: 3, resetAfterMs: 1900, nextAfterMs: 1043, retryAfterMs: 1186 }],
      ],
    },
    "sliding log: 4 per second": {
      sample: windowSample("sliding-log", 4, 1000),
      lines: [
        ["take", 1, 2000, { allowed: true, remaining: 3, resetAfterMs: 1000, nextAfterMs: 1000 }],
        ["take", 2, 2400, { allowed: true, remaining: 1, resetAfterMs: 1000, nextAfterMs: 600 }],
        ["take", 3, 2500, { allowed: false, remaining: 1, resetAfterMs: 900, nextAfterMs: 500, retryAfterMs: 900 }],
        ["take", 2, 3000, { allowed: true, remaining: 0, resetAfterMs: 1000, nextAfterMs: 400 }],
        ["refund", 1, 3000, { allowed: true, remaining: 1, resetAfterMs: 1000, nextAfterMs: 400 }],
        // The clock steps back by 2 s: both grants are clamped to end one window from now.
        ["take", 2, 1000, { allowed: false, remaining: 1, resetAfterMs: 1000, nextAfterMs: 1000, retryAfterMs: 1000 }],
        ["take", 4, 2000, { allowed: true, remaining: 0, resetAfterMs: 1000, nextAfterMs: 1000 }],
      ],
    },
  };
  for (const [title, { sample, lines }] of Object.entries(cases)) {
    test(title, () => {
      const { compiled, rule } = sample;
      const model = createModel(rule.algorithm);
      let state: PlainState | undefined;
      for (const [mode, cost, now, expected] of lines) {
        const outcome = decide(state, { policy: compiled, key: "key", cost, mode }, now);
        const numbers = { limit: compiled.limit, ...expected };
        expect(outcome.decision).toStrictEqual({ policy: compiled.name, ...numbers });
        expect(model.step(mode, rule, cost, now)).toStrictEqual(numbers);
        state = outcome.state as PlainState;
      }
    });
  }
});

describe("cost 0", () => {
  test("is allowed when a clock step back has put a sliding window above its limit", () => {
    const key = createKey(windowSample("sliding-window", 10, 1000).compiled);
    expect(key.take(10, 500).allowed).toBe(true);
    expect(key.take(9, 1900).allowed).toBe(true);
    // 10 x 9/10 + 9 are in use now.
    const free = { allowed: true, remaining: 0, resetAfterMs: 1900 };
    expect([key.peek(0, 1100), key.take(0, 1100)]).toMatchObject([free, free]);
  });

  test.each(NAMES)("is allowed when the limit of a %s was lowered below its use", (name) => {
    const key = createKey(compilePolicy(policyOf(name, 10)));
    const lowered = compilePolicy(policyOf(name, 3));
    expect(key.take(9, 5000).allowed).toBe(true);
    const free = { allowed: true, remaining: 0 };
    expect([key.peek(0, 5000, lowered), key.take(0, 5000, lowered)]).toMatchObject([free, free]);
    expect(key.refund(1, 5000, lowered).allowed).toBe(true);
  });
});

describe("the model", () => {
  test.each(NAMES)("computes the same waits of a %s as trying every millisecond", (name) => {
    const random = seededRandom(SEED);
    for (let round = 0; round < 150; round++) {
      const { rule } = smallSample(name, random);
      const model = createModel(name);
      let now = whole(random, 500);
      for (let step = 0; step < 12; step++) {
        now += whole(random, 30);
        model.step(random() < 0.8 ? "take" : "refund", rule, 1 + whole(random, 3), now);
        const cost = 1 + whole(random, Number(rule.limit) + 1);
        const peekAfter = (after: number) => model.step("peek", rule, cost, now + after);
        const { remaining, nextAfterMs, resetAfterMs, retryAfterMs } = peekAfter(0);
        const first = (holds: (after: number) => boolean) => {
          for (let after = 0; after < 10_000; after++) if (holds(after)) return after;
          throw new Error("never");
        };
        const full = remaining === Number(rule.limit);
        const where = `seed ${SEED}, round ${round}, step ${step}`;
        expect(nextAfterMs, where).toBe(full ? 0 : first((after) => peekAfter(after).remaining > remaining));
        expect(resetAfterMs, where).toBe(first((after) => peekAfter(after).resetAfterMs === 0));
        if (cost > rule.limit) expect(retryAfterMs, where).toBeNull();
        else if (retryAfterMs !== undefined)
          expect(retryAfterMs, where).toBe(first((after) => peekAfter(after).allowed));
      }
    }
  });
});

function policyOf(algorithm: RateAlgorithm, limit: number): Policy {
  if (algorithm === "token-bucket") return { algorithm, capacity: limit, tokensPerSecond: 1 };
  if (algorithm === "leaky-bucket") return { algorithm, capacity: limit, leaksPerSecond: 1 };
  return { algorithm, limit, windowMs: 10_000 };
}
