/** Which rules match a request. `test/rules` compares the matcher with a slow one, and with real servers. */
import { describe, expect, it } from "vitest";
import { runSteps } from "../../base/slices.ts";
import { Matcher } from "./matcher.ts";
import { type Pattern, parsePattern } from "./pattern.ts";

/** A matcher with one rule for each text; patterns are joined by ", ", and "unlimited" comes first. */
function matcherOf(texts: readonly string[], caseSensitive = false): (method: string, target: string) => string[][] {
  const rules = texts.map((text) => ({
    patterns: text
      .replace(/^unlimited /, "")
      .split(", ")
      .map((pattern) => parsePattern(pattern) as Pattern),
    isUnlimited: text.startsWith("unlimited "),
  }));
  const matcher = runSteps(Matcher.build(rules, caseSensitive));
  return (method, target) =>
    matcher
      .find(method, target)
      .map((candidates) => candidates.map(({ rule, pattern }) => rules[rule]?.patterns[pattern]?.text ?? "none"));
}

describe("Matcher", () => {
  it("returns all rules in written order, each with its first pattern that matches", () => {
    const find = matcherOf(["/v1/*, /v1/a", "POST /v1/a", "/:x/:y, /v1/:y", "/v1/b", "/*"]);
    expect(find("GET", "/v1/a")).toEqual([["/v1/*", "/:x/:y", "/*"]]);
    expect(find("POST", "/v1/a?b=/c")).toEqual([["/v1/*", "POST /v1/a", "/:x/:y", "/*"]]);
    expect(find("GET", "/v2")).toEqual([["/*"]]);
  });

  it("matches * with zero or more segments, and :name with one", () => {
    const find = matcherOf(["/a/*", "/a/:x"]);
    expect(find("GET", "/a")).toEqual([["/a/*"]]);
    expect(find("GET", "/a/b")).toEqual([["/a/*", "/a/:x"]]);
    expect(find("GET", "/a/b/c")).toEqual([["/a/*"]]);
    expect(find("GET", "/b")).toEqual([[]]);
  });

  it("matches HEAD with GET, and custom methods with patterns without methods", () => {
    const find = matcherOf(["GET /a", "HEAD /a", "PURGE /a", "/a"]);
    expect(find("HEAD", "/a")).toEqual([["GET /a", "HEAD /a", "/a"]]);
    expect(find("PURGE", "/a")).toEqual([["PURGE /a", "/a"]]);
    for (const method of ["ALL", "constructor", "__proto__", ""]) expect(find(method, "/a")).toEqual([["/a"]]);
    // Clients of HTTP/2 choose the case (issue 30).
    for (const method of ["get", "Get"]) expect(find(method, "/a")).toEqual([["GET /a", "/a"]]);
  });

  it("matches literals with names that routers use themselves", () => {
    const find = matcherOf(["/%3Ap", "/x", "/0", "/constructor", "/__proto__", "/:x"]);
    expect(find("GET", "/:p")).toEqual([["/%3Ap", "/:x"]]);
    for (const name of ["x", "0", "constructor", "__proto__"])
      expect(find("GET", `/${name}`)).toEqual([[`/${name}`, "/:x"]]);
    for (const name of ["1", "*", "{x}", "toString"]) expect(find("GET", `/${name}`)).toEqual([["/:x"]]);
  });

  it("does not take exponential time for segments that look like patterns", () => {
    const find = matcherOf([`${"/:x".repeat(16)}/*`]);
    for (const segment of ["/:p", "/*", "/:x", "/:"]) expect(find("GET", segment.repeat(16))).toHaveLength(1);
  });

  it("matches letters beyond ASCII as clients send them", () => {
    const find = matcherOf(["/café", "/a%20b"]);
    expect(find("GET", "/caf%C3%A9")).toEqual([["/café"]]);
    expect(find("GET", "/CAF%c3%89")).toContainEqual(["/café"]);
    expect(find("GET", "/a%20b")).toEqual([["/a%20b"]]);
  });

  it("returns the rules of routers that ignore case, and of those that don't", () => {
    const find = matcherOf(["/v1/login", "/v1/:x", "/v1/userProfiles"]);
    expect(find("GET", "/v1/Login")).toEqual([["/v1/login", "/v1/:x"], ["/v1/:x"]]);
    expect(find("GET", "/v1/userProfiles")).toEqual([["/v1/:x", "/v1/userProfiles"]]);
    expect(find("GET", "/v1/userprofiles")).toEqual([["/v1/:x", "/v1/userProfiles"], ["/v1/:x"]]);
  });

  it("distinguishes case if it matters", () => {
    const find = matcherOf(["/v1/Login", "/v1/login"], true);
    expect(find("GET", "/v1/Login")).toEqual([["/v1/Login"]]);
    expect(find("GET", "/v1/login")).toEqual([["/v1/login"]]);
    expect(find("GET", "/v1/LOGIN")).toEqual([[]]);
  });

  it("returns the rule of /:name for / unless there is a rule for /", () => {
    expect(matcherOf(["/:x"])("GET", "/")).toEqual([[], ["/:x"]]);
    expect(matcherOf(["/", "/:x"])("GET", "/")).toEqual([["/"]]);
    expect(matcherOf(["POST /", "/:x"])("GET", "/")).toEqual([[], ["/:x"]]);
  });

  it.each([
    ["/static/../v1/login", [["/static/*"], ["/v1/login"]]],
    ["/static/%2e%2e/v1/login", [["/static/*"], ["/v1/login"]]],
    ["/static/..%2fv1/login", [["/static/*"], ["/v1/login"]]],
    ["/static\\..\\v1/login", [[], ["/v1/login"]]],
    ["/static/a.js", [["/static/*"]]],
    ["/static", [["/static/*"]]],
    ["/Static/a.js", [[]]],
    ["/st%61tic/a.js", [[]]],
    ["//static/a.js", [[]]],
    ["http://h/static/a.js", [[]]],
    ["/healthz", [["/healthz"]]],
    ["/healthz?x", [["/healthz"]]],
    ["/healthz/", [[]]],
    ["/HEALTHZ", [[]]],
    ["/caf%C3%A9", [["/café"]]],
    ["/caf%c3%a9", [[]]],
  ])("compares unlimited rules byte by byte: %s", (target, expected) => {
    const find = matcherOf(["unlimited /static/*", "unlimited /healthz, /café", "/v1/login"]);
    expect(find("GET", target)).toEqual(expected);
  });

  it("does not exempt the other case of an unlimited rule", () => {
    const find = matcherOf(["unlimited /Status"]);
    expect(find("GET", "/Status")).toEqual([["/Status"]]);
    expect(find("GET", "/status")).toEqual([[]]);
  });

  it("finds nothing without rules", () => {
    for (const target of ["/", "/a", "", "*", "//", "/a/../b"]) expect(matcherOf([])("GET", target)).toEqual([[]]);
  });
});
