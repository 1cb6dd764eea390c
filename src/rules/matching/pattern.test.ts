/** Which texts are patterns, and what they mean. */
import { describe, expect, it } from "vitest";
import { includesMethod, parsePattern } from "./pattern.ts";

describe("parsePattern", () => {
  it.each([
    ["/", undefined, [], false],
    ["/*", undefined, [], true],
    ["/v1/login", undefined, ["v1", "login"], false],
    ["POST /v1/login", ["POST"], ["v1", "login"], false],
    ["GET|HEAD /v1/users/:id", ["GET", "HEAD"], ["v1", "users", undefined], false],
    ["GET|GET /a", ["GET"], ["a"], false],
    ["M-SEARCH /a", ["M-SEARCH"], ["a"], false],
    ["/v1/:team/*", undefined, ["v1", undefined], true],
    ["/v1/things:batch", undefined, ["v1", "things:batch"], false],
    ["/Users/~ada,+@x;v=1", undefined, ["Users", "~ada,+@x;v=1"], false],
    ["/.well-known/...", undefined, [".well-known", "..."], false],
    ["/%6Cogin", undefined, ["login"], false],
    ["/%3Aid", undefined, [":id"], false],
    ["/a%20b", undefined, ["a b"], false],
    ["/__proto__/constructor", undefined, ["__proto__", "constructor"], false],
  ])("parses %j", (text, methods, segments, isOpen) => {
    expect(parsePattern(text)).toMatchObject({ text, methods, segments, isOpen });
  });

  it("reads percent-encoded and plain letters as the same pattern", () => {
    for (const text of ["/café", "/caf%C3%A9", "/caf%c3%a9"]) {
      expect(parsePattern(text)).toMatchObject({ segments: ["café"], sentSegments: ["caf%C3%A9"] });
    }
  });

  it.each([
    "",
    "v1",
    "*",
    "POST login",
    "POST  /login",
    "POST/login",
    "post /login",
    "* /login",
    "ALL /login",
    "GET|ANY /login",
    "GET| /login",
    "GET, POST /login",
    "https://example.com/login",
    "//login",
    "/v1//login",
    "/v1/",
    "/v1/./login",
    "/v1/../login",
    "/v1/%2e%2e/login",
    "/v1/(.*)",
    "/v1/:id(\\d+)",
    "/v1/:id?",
    "/v1/:id{[0-9]+}",
    "/v1/{:id}",
    "/v1/:",
    "/v1/:from-:to",
    "/v1/:id.json",
    "/v1/*/x",
    "/v1/*rest",
    "/v1/x*",
    "/v1/a b",
    "/v1/a\\b",
    "/v1?x=1",
    "/v1#x",
    "/v1/%",
    "/v1/%zz",
    "/v1/%c0%af",
    "/v1/%2f",
    "/v1/%5C",
    "/v1/%25",
    "/v1/%00",
    "/v1/%7Bx%7D",
    "/v1/\n",
    "/v1/\ud800",
    "/v1/\u00a0",
    `/${"a".repeat(1000)}`,
    "/a".repeat(17),
  ])("rejects %j", (text) => expect(parsePattern(text)).toBeUndefined());

  it("accepts 16 segments", () => expect(parsePattern(`${"/a".repeat(16)}/*`)?.segments).toHaveLength(16));
});

describe("includesMethod", () => {
  it.each([
    [undefined, "PURGE", true],
    [["GET"], "GET", true],
    [["GET"], "HEAD", true],
    [["HEAD"], "GET", false],
    [["POST"], "HEAD", false],
  ])("%j, %s: %s", (methods, method, expected) => expect(includesMethod(methods, method)).toBe(expected));
});
