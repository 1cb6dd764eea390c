/** Which patterns never apply, and which make lookups slow. */
import { describe, expect, it } from "vitest";
import { runSteps } from "../../base/slices.ts";
import { checkPatterns } from "./check-patterns.ts";
import { type Pattern, parsePattern } from "./pattern.ts";

const patternsOf = (...texts: string[]) => texts.map((text) => parsePattern(text) as Pattern);
/** One rule for each list of patterns; a first "when" gives it a condition. */
const check = (rules: readonly (readonly string[])[], caseSensitive = false) =>
  runSteps(
    checkPatterns(
      rules.map(([first = "", ...rest]) => {
        const hasCondition = first === "when";
        return { patterns: patternsOf(...(hasCondition ? rest : [first, ...rest])), hasCondition };
      }),
      caseSensitive,
    ),
  );
const path = (length: number, segmentAt: (index: number) => string) =>
  Array.from({ length }, (_, index) => `/${segmentAt(index)}`).join("");

describe("checkPatterns", () => {
  it.each([
    ["/a", "/a"],
    ["/:x", "/a"],
    ["/:x", "/:y"],
    ["/*", "/"],
    ["/*", "/a/:x/*"],
    ["/a/*", "/a"],
    ["/a/*", "/a/*"],
    ["/:x/*", "/a/b"],
    ["/a/:x/c", "/a/b/c"],
    ["/a", "GET /a"],
    ["GET /a", "HEAD /a"],
    ["GET|POST /a", "POST|GET /a"],
    ["/Users", "/users"],
  ])("reports that %s hides %s", (first, second) => {
    expect(check([[first], [second]])).toEqual([{ rule: 1, pattern: 0, hiddenBy: 0 }]);
  });

  it.each([
    ["/a", "/:x"],
    ["/a", "/a/*"],
    ["/a/:x/*", "/a/*"],
    ["/a/b", "/a"],
    ["/a/:x", "/a"],
    ["GET /a", "/a"],
    ["HEAD /a", "GET /a"],
    ["GET /a", "GET|POST /a"],
    ["/:x/b", "/a/:y"],
  ])("accepts %s before %s", (first, second) => expect(check([[first], [second]])).toEqual([]));

  it("distinguishes case only if it matters", () => expect(check([["/Users"], ["/users"]], true)).toEqual([]));

  it("does not count a rule with a condition, except for its own patterns", () => {
    expect(check([["when", "/a"], ["/a"]])).toEqual([]);
    expect(check([["when", "/*", "/a"], ["/a"]])).toEqual([{ rule: 0, pattern: 1, hiddenBy: 0 }]);
  });

  it("finds a pattern hidden by one of several rules", () => {
    expect(
      check([
        ["GET /a", "/b/:x"],
        ["POST /a", "/b/c/d"],
        ["/b/c", "/a"],
      ]),
    ).toEqual([{ rule: 2, pattern: 0, hiddenBy: 0 }]);
  });

  it("accepts 32 overlaps and reports more", () => {
    const conditional = (count: number) => Array.from({ length: count }, () => ["when", "/a"]);
    expect(check([...conditional(32), ["/a"]])).toEqual([]);
    expect(check([...conditional(33), ["/a"]])).toEqual([{ rule: 33, pattern: 0, overlaps: 33 }]);
    expect(check([...conditional(32), ["/:x"], ["/*"]])).toEqual([{ rule: 33, pattern: 0, overlaps: 33 }]);
  });

  it("reports overlaps of patterns that no pattern includes", () => {
    // A request with all literals matches all of them, and none matches a request of another by itself.
    const pairs = path(16, () => "x")
      .split("/")
      .flatMap((_, first) => Array.from({ length: first }, (_, second) => [first, second] as const))
      .filter(([first]) => first < 16);
    const rules = pairs.map((pair) => [path(16, (index) => (pair.includes(index) ? "w" : ":x"))]);
    expect(check(rules.slice(0, 33))).toEqual([]);
    expect(check(rules).at(0)).toEqual({ rule: 33, pattern: 0, overlaps: 33 });
  });

  it("accepts many patterns that overlap in pairs only", () => {
    const words = Array.from({ length: 250 }, (_, index) => index);
    expect(check([...words.map((word) => [`/:x/a${word}`]), ...words.map((word) => [`/b${word}/:x`]), ["/*"]])).toEqual(
      [],
    );
  });

  it("does not count other methods as overlaps", () => {
    expect(check(Array.from({ length: 100 }, (_, index) => [`M${index} /a`]))).toEqual([]);
  });

  it.each([
    ["hidden patterns", () => "/a"],
    ["methods", (index: number) => `M${index} /a`],
    ["sets of methods", (index: number) => `GET|M${index} /a`],
    ["deep patterns", (index: number) => path(16, (at) => ((index >> at) % 2 ? "w" : ":x"))],
    ["literals", (index: number) => `/a${index}/:x`],
  ])(
    "checks 20 000 %s in time that is not quadratic",
    (_name, textAt) => {
      const patterns = patternsOf(...Array.from({ length: 20_000 }, (_, index) => textAt(index)));
      expect(runSteps(checkPatterns([{ patterns, hasCondition: false }], false)).length).toBeLessThanOrEqual(100);
    },
    2000,
  );
});
