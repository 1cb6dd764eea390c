/** Tests the bound, the liveness and the clock steps of the five algorithms with random and exhaustive schedules. */
import fc from "fast-check";
import type { Mode } from "sluice";
import { decide, type PlainState } from "sluice/algorithms";
import { describe, expect, test } from "vitest";
import type { RateAlgorithm } from "../src/testing/subject.ts";
import {
  bucketSample,
  createKey,
  oneOf,
  randomSample,
  type Sample,
  seededRandom,
  smallSample,
  whole,
  windowSample,
} from "./model-samples.ts";
import { SEED } from "./settings.ts";

const BUCKETS = ["token-bucket", "leaky-bucket"] as const;

describe("the bound", () => {
  test.each(BUCKETS)("of a %s is capacity + rate x elapsed over every interval", (name) => {
    runSchedules(name, (grants, { rule }) => {
      const [cap, p, q] = [Number(rule.limit * rule.q), Number(rule.p), Number(rule.q)];
      everyInterval(grants, (net, elapsed) => net * q <= cap + p * elapsed);
    });
  });

  test("of a fixed window is the limit per clock window, and twice the limit in any window", () => {
    runSchedules("fixed-window", (grants, { compiled: { limit, windowMs } }) => {
      for (const net of perWindow(grants, windowMs)) expect(net).toBeLessThanOrEqual(limit);
      everyInterval(grants, (net, elapsed) => elapsed >= windowMs || net <= 2 * limit);
    });
  });

  test("of a sliding window is the limit per clock window, and less than twice the limit in any window", () => {
    runSchedules("sliding-window", (grants, { compiled: { limit, windowMs } }) => {
      for (const net of perWindow(grants, windowMs)) expect(net).toBeLessThanOrEqual(limit);
      everyInterval(grants, (net, elapsed) => elapsed >= windowMs || net < 2 * limit);
      // Over any interval, at most as much as a bucket of the same limit and rate.
      everyInterval(grants, (net, elapsed) => net * windowMs <= limit * (windowMs + elapsed));
    });
  });

  test("of a sliding log is the limit in every window", () => {
    runSchedules("sliding-log", (grants, { compiled: { limit, windowMs } }) => {
      everyInterval(grants, (net, elapsed) => elapsed >= windowMs || net <= limit);
    });
  });

  // Tries every schedule with small numbers: the bound holds, and it is tight.
  test("is reached by the worst schedule and never exceeded", () => {
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

  test("of 100 per minute is 200 in the worst minute of a fixed window, 199 of a sliding window and 100 of a log", () => {
    const burst = (name: "fixed-window" | "sliding-window" | "sliding-log") => {
      const key = createKey(windowSample(name, 100, 60_000).compiled);
      let granted = 0;
      // A burst in the last millisecond of a window, then as much as possible for the rest of a window's time.
      for (let now = 59_999; now < 119_999; now++) {
        while (granted <= 200 && key.take(1, now).allowed) granted++;
      }
      return granted;
    };
    expect(burst("fixed-window")).toBe(200);
    // The greedy schedule is not the worst: waiting for the end of the window is.
    expect(burst("sliding-window")).toBeLessThanOrEqual(199);
    expect(burst("sliding-log")).toBe(100);

    const key = createKey(windowSample("sliding-window", 100, 60_000).compiled);
    const last = [key.take(100, 59_999), key.take(100, 119_998), key.take(99, 119_998), key.take(1, 119_998)];
    expect(last.map(({ allowed }) => allowed)).toEqual([true, false, true, false]);
  });
});

describe("liveness", () => {
  test.each([10, 2])("of a bucket of %i at 10/s is 10/s when polled at odd intervals", (capacity) => {
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

  test("of a saturated bucket is at least capacity + rate x elapsed - cost at any rate and gap", () => {
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

describe("a clock that steps back", () => {
  // Time that passes twice counts twice: elapsed time is the sum of all forward movements of the clock.
  test.each(BUCKETS)("admits nothing extra in a %s", (name) => {
    runSchedules(
      name,
      (grants, { rule }) => {
        const [cap, p, q] = [Number(rule.limit * rule.q), Number(rule.p), Number(rule.q)];
        everyInterval(grants, (net, travelled) => net * q <= cap + p * travelled);
      },
      { stepsBack: true },
    );
  });

  test("admits nothing extra in a sliding window", () => {
    runSchedules(
      "sliding-window",
      (grants, { compiled: { limit, windowMs } }) => {
        everyInterval(grants, (net, travelled) => net * windowMs <= limit * (windowMs + travelled));
      },
      { stepsBack: true },
    );
  });

  test("admits nothing extra in a sliding log", () => {
    runSchedules(
      "sliding-log",
      (grants, { compiled: { limit, windowMs } }) => {
        everyInterval(grants, (net, travelled) => travelled >= windowMs || net <= limit);
      },
      { stepsBack: true },
    );
  });

  test("admits at most two limits per window, plus one, in a fixed window for any number of boundary crossings", () => {
    runSchedules(
      "fixed-window",
      (grants, { compiled: { limit, windowMs } }) => {
        everyInterval(grants, (net, travelled) => net <= limit * (2 * Math.floor(travelled / windowMs) + 3));
      },
      { stepsBack: true },
    );
  });
});

/** The net grant of a step (0 if denied, negative if refunded), and the sum of forward clock movements in ms. */
interface Grant {
  now: number;
  travelled: number;
  net: number;
}

/** Runs random greedy schedules with refunds and passes the grants of each to `check`. */
function runSchedules(
  name: RateAlgorithm,
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
        // Less than is in use: all of it is refunded.
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

/** Throws unless `holds` is true for every interval that starts and ends with a grant. */
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

/** The sum of grants per clock window. */
function perWindow(grants: readonly Grant[], windowMs: number): number[] {
  const sums = new Map<number, number>();
  for (const { now, net } of grants) {
    const window = Math.floor(now / windowMs);
    sums.set(window, (sums.get(window) ?? 0) + net);
  }
  return [...sums.values()];
}

/**
 * The maximum that any schedule is granted in `spanMs` consecutive milliseconds. Tries every cost in every millisecond, for
 * every state that a key can reach within `lastStart` ms.
 */
function mostGranted({ compiled }: Sample, spanMs: number, lastStart: number): number {
  const best = new Map<string, number>();
  /** Every state that one millisecond can lead to, with the granted cost. */
  const choices = (state: readonly number[] | undefined, now: number) => {
    const spend = (mode: Mode, cost: number) => decide(state, { policy: compiled, key: "key", cost, mode }, now);
    return Array.from({ length: spend("peek", 0).decision.remaining + 1 }, (_, cost) => {
      const outcome = spend("take", cost);
      expect(outcome.decision.allowed).toBe(true);
      return { state: outcome.state as PlainState, cost };
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
