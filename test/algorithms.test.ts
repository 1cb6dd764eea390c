/** Holds the five algorithms to the model and to the laws: every figure of every decision, over random walks. */
import fc from "fast-check";
import type { AlgorithmName, Decision, Mode, Policy } from "sluice";
import { compilePolicy, decide } from "sluice/algorithms";
import { describe, expect, test } from "vitest";
import { createModel } from "./model.ts";
import {
  bucketSample,
  createKey,
  oneOf,
  type Random,
  randomSample,
  type Sample,
  seededRandom,
  walk,
  whole,
  windowSample,
} from "./model-walk.ts";

/**
 * SLUICE_STEPS sets the number of steps of all walks together (default 1 000 000, at least 100 000) and SLUICE_SEED
 * the seed of every random choice (default: another one in each run). A failure prints its seed.
 */
const STEPS = setting("SLUICE_STEPS", 1_000_000);
const SEED = setting("SLUICE_SEED", Math.floor(Math.random() * 2 ** 31));

const NAMES = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window", "sliding-log"] as const;
const BUCKETS = ["token-bucket", "leaky-bucket"] as const;

describe("random walks beside the model", () => {
  const shares: Record<AlgorithmName, number> = {
    "token-bucket": 0.25,
    "leaky-bucket": 0.2,
    "fixed-window": 0.2,
    "sliding-window": 0.2,
    "sliding-log": 0.15,
  };
  for (const name of NAMES) {
    const steps = Math.ceil(STEPS * shares[name]);
    test(`${name} decides as the model does`, { timeout: 120_000 + steps }, () => {
      const { steps: made, ...kinds } = walk(name, steps, SEED);
      expect(made).toBe(steps);
      // A walk that never met one of these has proved less than it says.
      for (const [kind, count] of Object.entries(kinds)) expect(count, kind).toBeGreaterThan(steps / 1000);
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
        // The clock goes back over the edge: what was taken stays taken, in a window that begins now.
        ["take", 3, 7950, { allowed: false, remaining: 2, resetAfterMs: 1000, nextAfterMs: 1000, retryAfterMs: 1000 }],
        ["refund", 9, 7960, { allowed: true, remaining: 5, resetAfterMs: 0, nextAfterMs: 0 }],
      ],
    },
    "sliding window: 10 per second": {
      sample: windowSample("sliding-window", 10, 1000),
      lines: [
        ["take", 8, 4600, { allowed: true, remaining: 2, resetAfterMs: 1400, nextAfterMs: 525 }],
        ["take", 1, 5250, { allowed: true, remaining: 3, resetAfterMs: 1750, nextAfterMs: 125 }],
        // 8 x 3/4 + 1 are in use. Room for 5 comes when 4 of the 8 have faded, at 5500.
        ["take", 5, 5250, { allowed: false, remaining: 3, resetAfterMs: 1750, nextAfterMs: 125, retryAfterMs: 250 }],
        ["take", 5, 5500, { allowed: true, remaining: 0, resetAfterMs: 1500, nextAfterMs: 125 }],
        // 6 count for this window. All 10 fit again only when it has faded as well, at 7000.
        ["take", 10, 5500, { allowed: false, remaining: 0, resetAfterMs: 1500, nextAfterMs: 125, retryAfterMs: 1500 }],
        ["refund", 7, 5500, { allowed: true, remaining: 6, resetAfterMs: 500, nextAfterMs: 72 }],
        // Back before the window of what is left, 7: it counts as spent just now.
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
        // Back by 2 s: both grants would end after a whole window from now, and end there instead.
        ["take", 2, 1000, { allowed: false, remaining: 1, resetAfterMs: 1000, nextAfterMs: 1000, retryAfterMs: 1000 }],
        ["take", 4, 2000, { allowed: true, remaining: 0, resetAfterMs: 1000, nextAfterMs: 1000 }],
      ],
    },
  };
  for (const [title, { sample, lines }] of Object.entries(cases)) {
    test(title, () => {
      const { compiled, rule } = sample;
      const model = createModel(compiled.algorithm);
      let state: readonly number[] | undefined;
      for (const [mode, cost, now, expected] of lines) {
        const outcome = decide(state, { policy: compiled, key: "key", cost, mode }, now);
        const figures = { limit: compiled.limit, ...expected };
        expect(outcome.decision).toStrictEqual({ policy: compiled.name, ...figures });
        expect(model.step(mode, rule, cost, now)).toStrictEqual(figures);
        state = outcome.state;
      }
    });
  }
});

describe("cost 0 is free", () => {
  test("when a step back inside of the window has put a sliding window above its limit", () => {
    const key = createKey(windowSample("sliding-window", 10, 1000).compiled);
    expect(key.take(10, 500).allowed).toBe(true);
    expect(key.take(9, 1900).allowed).toBe(true);
    // 10 x 9/10 + 9 are in use now.
    const free = { allowed: true, remaining: 0, resetAfterMs: 1900 };
    expect([key.peek(0, 1100), key.take(0, 1100)]).toMatchObject([free, free]);
  });

  test.each(NAMES)("when the limit of a %s was lowered below what is in use", (name) => {
    const key = createKey(compilePolicy(policyOf(name, 10)));
    const lowered = compilePolicy(policyOf(name, 3));
    expect(key.take(9, 5000).allowed).toBe(true);
    const free = { allowed: true, remaining: 0 };
    expect([key.peek(0, 5000, lowered), key.take(0, 5000, lowered)]).toMatchObject([free, free]);
    expect(key.refund(1, 5000, lowered).allowed).toBe(true);
  });
});

describe("the model", () => {
  test.each(NAMES)("finds the waits of a %s that counting every millisecond finds", (name) => {
    const random = seededRandom(SEED);
    for (let round = 0; round < 150; round++) {
      const { rule } = smallSample(name, random);
      const model = createModel(name);
      let now = whole(random, 500);
      for (let step = 0; step < 12; step++) {
        now += whole(random, 30);
        model.step(random() < 0.8 ? "take" : "refund", rule, 1 + whole(random, 3), now);
        const cost = 1 + whole(random, Number(rule.limit) + 1);
        const look = (after: number) => model.step("peek", rule, cost, now + after);
        const { remaining, nextAfterMs, resetAfterMs, retryAfterMs } = look(0);
        const first = (holds: (after: number) => boolean) => {
          for (let after = 0; after < 10_000; after++) if (holds(after)) return after;
          throw new Error("never");
        };
        const full = remaining === Number(rule.limit);
        const where = `seed ${SEED}, round ${round}, step ${step}`;
        expect(nextAfterMs, where).toBe(full ? 0 : first((after) => look(after).remaining > remaining));
        expect(resetAfterMs, where).toBe(first((after) => look(after).resetAfterMs === 0));
        if (cost > rule.limit) expect(retryAfterMs, where).toBeNull();
        else if (retryAfterMs !== undefined) expect(retryAfterMs, where).toBe(first((after) => look(after).allowed));
      }
    }
  });
});

describe("law 1: the bound", () => {
  test.each(BUCKETS)("%s: capacity + rate x elapsed over every interval", (name) => {
    manySchedules(name, (grants, { rule }) => {
      const [cap, p, q] = [Number(rule.limit * rule.q), Number(rule.p), Number(rule.q)];
      everyInterval(grants, (net, elapsed) => net * q <= cap + p * elapsed);
    });
  });

  test("fixed window: the limit per window of the clock, twice the limit in any window", () => {
    manySchedules("fixed-window", (grants, { compiled: { limit, windowMs } }) => {
      for (const net of perWindow(grants, windowMs)) expect(net).toBeLessThanOrEqual(limit);
      everyInterval(grants, (net, elapsed) => elapsed >= windowMs || net <= 2 * limit);
    });
  });

  test("sliding window: the limit per window of the clock, less than twice the limit in any window", () => {
    manySchedules("sliding-window", (grants, { compiled: { limit, windowMs } }) => {
      for (const net of perWindow(grants, windowMs)) expect(net).toBeLessThanOrEqual(limit);
      everyInterval(grants, (net, elapsed) => elapsed >= windowMs || net < 2 * limit);
      // No more than a bucket of the same limit and rate would give, over intervals of any length.
      everyInterval(grants, (net, elapsed) => net * windowMs <= limit * (windowMs + elapsed));
    });
  });

  test("sliding log: the limit in every window", () => {
    manySchedules("sliding-log", (grants, { compiled: { limit, windowMs } }) => {
      everyInterval(grants, (net, elapsed) => elapsed >= windowMs || net <= limit);
    });
  });

  // Every schedule there is, for small numbers: the bound is kept, and it is the best that can be promised.
  test("the worst that any schedule can do is what is documented", () => {
    for (let limit = 1; limit <= 4; limit++) {
      for (let windowMs = 1; windowMs <= 6; windowMs++) {
        const where = `${limit} in ${windowMs} ms`;
        const most = (name: "fixed-window" | "sliding-window" | "sliding-log") =>
          mostGranted(windowSample(name, limit, windowMs), windowMs, 2 * windowMs);
        expect(most("fixed-window"), where).toBe(windowMs === 1 ? limit : 2 * limit);
        expect(most("sliding-window"), where).toBe(
          windowMs === 1 ? limit : 2 * limit - Math.ceil((2 * limit) / windowMs),
        );
        if (limit * windowMs <= 12) expect(most("sliding-log"), where).toBe(limit);
      }
    }
    for (const [capacity, tokens, everyMs] of [
      [1, 1, 1],
      [2, 1, 3],
      [3, 2, 5],
      [4, 7, 2],
      [2, 3, 4],
    ] as const) {
      for (const name of BUCKETS) {
        const sample = bucketSample(name, capacity, `${tokens}/${everyMs}ms`, BigInt(tokens), BigInt(everyMs));
        for (let span = 1; span <= 6; span++) {
          const bound = Math.floor(capacity + (tokens * (span - 1)) / everyMs);
          expect(mostGranted(sample, span, 4), `${tokens}/${everyMs}ms in ${span} ms`).toBe(bound);
        }
      }
    }
  });

  test("100 per minute pass 200 in a fixed window's worst minute, 199 in a sliding window's, 100 in a log's", () => {
    const burst = (name: "fixed-window" | "sliding-window" | "sliding-log") => {
      const key = createKey(windowSample(name, 100, 60_000).compiled);
      let granted = 0;
      // All at the last millisecond of a window, and all that the rest of one window's time allows.
      for (let now = 59_999; now < 119_999; now++) {
        while (granted <= 200 && key.take(1, now).allowed) granted++;
      }
      return granted;
    };
    expect(burst("fixed-window")).toBe(200);
    // Greed is not the worst schedule here: waiting for the end is.
    expect(burst("sliding-window")).toBeLessThanOrEqual(199);
    expect(burst("sliding-log")).toBe(100);

    const key = createKey(windowSample("sliding-window", 100, 60_000).compiled);
    const last = [key.take(100, 59_999), key.take(100, 119_998), key.take(99, 119_998), key.take(1, 119_998)];
    expect(last.map(({ allowed }) => allowed)).toEqual([true, false, true, false]);
  });
});

describe("law 2: liveness", () => {
  test.each([10, 2])("a bucket of %i at 10/s, polled at odd intervals, grants 10/s", (capacity) => {
    for (const name of BUCKETS) {
      for (const gap of [50, 70, 99]) {
        const key = createKey(bucketSample(name, capacity, 10, 1n, 100n).compiled);
        expect(key.take(capacity, 0).allowed).toBe(true);
        let granted = 0;
        let now = 0;
        for (now = gap; now <= 60_000; now += gap) if (key.take(1, now).allowed) granted++;
        const earned = (now - gap) / 100;
        expect(granted, `every ${gap} ms`).toBeLessThanOrEqual(earned);
        expect(granted, `every ${gap} ms`).toBeGreaterThan(earned - 1);
      }
    }
  });

  test("a saturated bucket grants capacity + rate x elapsed - cost at any rate and gap", () => {
    const input = fc.record({
      name: fc.constantFrom(...BUCKETS),
      tokens: fc.integer({ min: 1, max: 50 }),
      everyMs: fc.integer({ min: 1, max: 5000 }),
      cost: fc.integer({ min: 1, max: 5 }),
      spare: fc.integer({ min: 0, max: 3 }),
      gaps: fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 60 }),
    });
    fc.assert(
      fc.property(input, ({ name, tokens, everyMs, cost, spare, gaps }) => {
        const capacity = cost + Math.ceil((tokens * Math.max(...gaps)) / everyMs) + spare;
        const sample = bucketSample(name, capacity, `${tokens}/${everyMs}ms`, BigInt(tokens), BigInt(everyMs));
        const key = createKey(sample.compiled);
        const start = 1.8e12;
        let granted = 0;
        let now = start;
        for (const gap of [0, ...gaps]) {
          now += gap;
          const due = capacity * everyMs + tokens * (now - start);
          while (key.take(cost, now).allowed) {
            granted += cost;
            if (granted * everyMs > due) throw new Error(`${granted} granted in ${now - start} ms`);
          }
          expect((granted + cost) * everyMs).toBeGreaterThan(due);
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe("law 7: a clock that steps back", () => {
  // Time that passes twice counts twice, for it can't be told from time: what counts is how far the clock went forward.
  test.each(BUCKETS)("gives nothing in a %s", (name) => {
    manySchedules(
      name,
      (grants, { rule }) => {
        const [cap, p, q] = [Number(rule.limit * rule.q), Number(rule.p), Number(rule.q)];
        everyInterval(grants, (net, travelled) => net * q <= cap + p * travelled);
      },
      { stepsBack: true },
    );
  });

  test("gives nothing in a sliding window", () => {
    manySchedules(
      "sliding-window",
      (grants, { compiled: { limit, windowMs } }) => {
        everyInterval(grants, (net, travelled) => net * windowMs <= limit * (windowMs + travelled));
      },
      { stepsBack: true },
    );
  });

  test("gives nothing in a sliding log", () => {
    manySchedules(
      "sliding-log",
      (grants, { compiled: { limit, windowMs } }) => {
        everyInterval(grants, (net, travelled) => travelled >= windowMs || net <= limit);
      },
      { stepsBack: true },
    );
  });

  test("gives a fixed window no more than two limits in a window's time and one beside, however often it goes over an edge", () => {
    manySchedules(
      "fixed-window",
      (grants, { compiled: { limit, windowMs } }) => {
        everyInterval(grants, (net, travelled) => net <= limit * (2 * Math.floor(travelled / windowMs) + 3));
      },
      { stepsBack: true },
    );
  });
});

function setting(name: string, otherwise: number): number {
  const text = process.env[name];
  if (text === undefined) return otherwise;
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new Error(`${name} is no whole number: ${text}`);
  return value;
}

function policyOf(algorithm: AlgorithmName, limit: number): Policy {
  if (algorithm === "token-bucket") return { algorithm, capacity: limit, tokensPerSecond: 1 };
  if (algorithm === "leaky-bucket") return { algorithm, capacity: limit, leaksPerSecond: 1 };
  return { algorithm, limit, windowMs: 10_000 };
}

/** A policy that lives through all of its states within a few hundred milliseconds. */
function smallSample(name: AlgorithmName, random: Random): Sample {
  const limit = 1 + whole(random, 6);
  if (name === "token-bucket" || name === "leaky-bucket") {
    const tokens = 1 + whole(random, 7);
    const everyMs = 1 + whole(random, 60);
    const capacity = Math.max(limit, Math.ceil(tokens / everyMs));
    return bucketSample(name, capacity, `${tokens}/${everyMs}ms`, BigInt(tokens), BigInt(everyMs));
  }
  return windowSample(name, limit, 1 + whole(random, 90));
}

/** What was granted at an instant (0: denied), less what was refunded, and how far the clock had gone forward. */
interface Grant {
  now: number;
  travelled: number;
  net: number;
}

/** Plays random greedy schedules with refunds, and shows the grants of each to `check`. */
function manySchedules(
  name: AlgorithmName,
  check: (grants: readonly Grant[], sample: Sample) => void,
  { stepsBack = false } = {},
): void {
  const random = seededRandom(SEED);
  for (let round = 0; round < 200; round++) {
    const sample = random() < 0.5 ? smallSample(name, random) : randomSample(name, random);
    const { compiled } = sample;
    const key = createKey(compiled);
    const grants: Grant[] = [];
    let now = 1.8e12 + whole(random, 10_000);
    let travelled = 0;
    for (let step = 0; step < 150; step++) {
      if (stepsBack && random() < 0.15) {
        now -= whole(random, oneOf(random, [3, compiled.windowMs, 3 * compiled.windowMs]) + 1);
      } else {
        const edge = compiled.windowMs - (now % compiled.windowMs) - oneOf(random, [0, 1]);
        const by = oneOf(random, [0, 1, whole(random, 5), edge, whole(random, Math.ceil(compiled.windowMs / 3) + 1)]);
        now += by;
        travelled += by;
      }
      const { remaining } = key.peek(0, now);
      const cost = oneOf(random, [1, remaining || 1, 1 + whole(random, compiled.limit)]);
      const inUse = compiled.limit - remaining;
      if (random() < 0.1 && inUse > 1) {
        // Less than is in use, so that all of it comes back.
        const cost = 1 + whole(random, inUse - 1);
        key.refund(cost, now);
        grants.push({ now, travelled, net: -cost });
      } else {
        grants.push({ now, travelled, net: key.take(cost, now).allowed ? cost : 0 });
      }
    }
    check(grants, sample);
  }
}

/** Asks `holds` about every interval that begins and ends with a grant. */
function everyInterval(grants: readonly Grant[], holds: (net: number, elapsed: number) => boolean): void {
  for (let from = 0; from < grants.length; from++) {
    const start = (grants[from] as Grant).travelled;
    let net = 0;
    for (let to = from; to < grants.length; to++) {
      const grant = grants[to] as Grant;
      net += grant.net;
      if (holds(net, grant.travelled - start)) continue;
      const shown = JSON.stringify(grants.slice(from, to + 1));
      throw new Error(`SLUICE_SEED=${SEED}: ${net} granted in ${grant.travelled - start} ms: ${shown}`);
    }
  }
}

/** What was granted in each window of the clock. */
function perWindow(grants: readonly Grant[], windowMs: number): number[] {
  const sums = new Map<number, number>();
  for (const { now, net } of grants) {
    const window = Math.floor(now / windowMs);
    sums.set(window, (sums.get(window) ?? 0) + net);
  }
  return [...sums.values()];
}

/**
 * The most that any schedule at all can be granted in `spanMs` consecutive milliseconds: tries every cost in every
 * millisecond, for every state that a key can be in, up to `lastStart` after an untouched one.
 */
function mostGranted({ compiled }: Sample, spanMs: number, lastStart: number): number {
  const best = new Map<string, number>();
  /** Every state that one millisecond can lead to, with what it was granted. */
  const choices = (state: readonly number[] | undefined, now: number) => {
    const spend = (mode: Mode, cost: number) => decide(state, { policy: compiled, key: "key", cost, mode }, now);
    return Array.from({ length: spend("peek", 0).decision.remaining + 1 }, (_, cost) => {
      const outcome = spend("take", cost);
      expect(outcome.decision.allowed).toBe(true);
      return { state: outcome.state, cost };
    });
  };
  const mostFrom = (state: readonly number[] | undefined, now: number, left: number): number => {
    if (left === 0) return 0;
    const at = `${now} ${left} ${state}`;
    let most = best.get(at);
    if (most === undefined) {
      most = Math.max(...choices(state, now).map(({ state, cost }) => cost + mostFrom(state, now + 1, left - 1)));
      best.set(at, most);
    }
    return most;
  };
  let most = 0;
  let states: (readonly number[] | undefined)[] = [undefined];
  for (let now = 0; now <= lastStart; now++) {
    const next = new Map<string, readonly number[]>();
    for (const from of states) {
      most = Math.max(most, mostFrom(from, now, spanMs));
      for (const { state } of choices(from, now)) next.set(state.join(), state);
    }
    states = [...next.values()];
  }
  return most;
}
