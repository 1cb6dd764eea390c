import { describe, expect, it } from "vitest";
import { patternAdvice } from "./pattern-advice.ts";

describe("patternAdvice", () => {
  it.each([
    ["POST /login/", 'a path has no trailing slash: write "POST /login"'],
    ["post /q", 'methods are in upper case: write "POST /q"'],
    ["get|Head /q", 'methods are in upper case: write "GET|HEAD /q"'],
    ["/v1/*/x", '"*" is the last segment, and ":name" is any one segment: write "/v1/:name/x"'],
    ["ALL /q", 'without methods, it matches all of them: write "/q"'],
    ["* /q", 'without methods, it matches all of them: write "/q"'],
    ["GET, POST /q", 'methods are joined by "|": write "GET|POST /q"'],
    ["POST login", 'a path starts with "/": write "POST /login"'],
    ["login", 'a path starts with "/": write "/login"'],
    ["POST  /login", 'one space separates the methods from the path: write "POST /login"'],
    ["POST/login", 'one space separates the methods from the path: write "POST /login"'],
    ["/v1//login", 'a path has no empty segments: write "/v1/login"'],
    ["https://example.com/login", 'a pattern has no host: write "/login"'],
    ["GET https://example.com/login", 'a pattern has no host: write "GET /login"'],
    ["/search?q=1", 'the query is ignored: write "/search"'],
  ])("%s: %s", (text, advice) => expect(patternAdvice(text)).toBe(advice));

  it.each(["", "/v1/(.*)", "/v1/:id?/x", "/v1/../login", "/v1/:from-:to", `/${"a/".repeat(500)}`])(
    "has no suggestion for %s",
    (text) => expect(patternAdvice(text)).toMatch(/^write "\[METHODS\] \/path" with literal segments/),
  );

  it("takes no longer for hostile text", () => {
    for (const sign of [" ", "/", "*", "/*", "A", "A ", "A,", ", ", "http://"]) {
      const text = sign.repeat(Math.floor(200 / sign.length));
      const start = performance.now();
      for (let i = 0; i < 100; i++) patternAdvice(text);
      expect(performance.now() - start).toBeLessThan(1000);
    }
  });
});
