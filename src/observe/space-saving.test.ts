/** Tests the counters of Space-Saving against exact counts of short streams. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { SpaceSaving } from "./space-saving.ts";

const NOW = 1_800_000_000_000;

describe("SpaceSaving", () => {
  it("counts exactly while there are enough counters", () => {
    const sketch = new SpaceSaving(3);
    for (const key of ["a", "b", "a", "c", "a", "b"]) sketch.add("api", key, NOW);
    expect(sketch.counters().map(({ key, count, error }) => [key, count, error])).toEqual([
      ["a", 3, 0],
      ["b", 2, 0],
      ["c", 1, 0],
    ]);
    expect(sketch.maxUncounted).toBe(1);
  });

  it("gives the smallest counter to a new pair, with its count as the error", () => {
    const sketch = new SpaceSaving(2);
    for (const key of ["a", "a", "a", "b", "b"]) sketch.add("api", key, NOW);
    sketch.add("api", "c", NOW + 5);
    expect(sketch.get("api", "b")).toBeUndefined();
    expect(sketch.get("api", "c")).toEqual({ rule: "api", key: "c", count: 3, error: 2, since: NOW + 5 });
  });

  it("counts a key separately for each rule", () => {
    const sketch = new SpaceSaving(4);
    for (const rule of ["api", "login", "api"]) sketch.add(rule, "a", NOW);
    expect([sketch.get("api", "a")?.count, sketch.get("login", "a")?.count]).toEqual([2, 1]);
  });

  it("removes a rule with its last counter", () => {
    const sketch = new SpaceSaving(1);
    for (let i = 0; i < 1000; i++) sketch.add(`rule ${i}`, "a", NOW);
    expect(sketch.counters()).toEqual([{ rule: "rule 999", key: "a", count: 1000, error: 999, since: NOW }]);
    expect(sketch.get("rule 998", "a")).toBeUndefined();
  });

  it("keeps its bounds and its order after every addition", () => {
    const streams = fc.array(fc.tuple(fc.constantFrom("api", "login"), fc.integer({ min: 0, max: 6 })), {
      maxLength: 80,
    });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 6 }), streams, (capacity, stream) => {
        const sketch = new SpaceSaving(capacity);
        const exact = new Map<string, number>();
        for (const [i, [rule, number]] of stream.entries()) {
          const key = `key ${number}`;
          sketch.add(rule, key, NOW + i);
          exact.set(`${rule} ${key}`, (exact.get(`${rule} ${key}`) ?? 0) + 1);

          const counters = sketch.counters();
          const counts = counters.map(({ count }) => count);
          expect(counts).toEqual(counts.toSorted((a, b) => b - a));
          expect(counts.reduce((sum, count) => sum + count, 0)).toBe(i + 1);
          expect(sketch.maxUncounted).toBeLessThanOrEqual((i + 1) / capacity);
          for (const counter of counters) {
            const truth = exact.get(`${counter.rule} ${counter.key}`) ?? 0;
            expect(counter.count - counter.error).toBeLessThanOrEqual(truth);
            expect(counter.count).toBeGreaterThanOrEqual(truth);
            expect(counter.error).toBeLessThanOrEqual(sketch.maxUncounted);
            expect(sketch.get(counter.rule, counter.key)).toEqual(counter);
          }
          for (const [pair, truth] of exact) {
            const isCounted = counters.some(({ rule, key }) => `${rule} ${key}` === pair);
            if (!isCounted) expect(truth, pair).toBeLessThanOrEqual(sketch.maxUncounted);
          }
        }
      }),
      { numRuns: 300 },
    );
  });
});
