/** Which paths routers read from a request target. */
import { describe, expect, it } from "vitest";
import { isCanonical, readingsOf } from "./readings.ts";

const MAX_SEGMENTS = 6;

describe("isCanonical", () => {
  it.each(["/v1/login", "/v1/files/a-b_c~1.2", "/.well-known/x", "/a/...", "/ada@example.com:1"])("%s", (path) => {
    expect(isCanonical(path)).toBe(true);
    expect(readingsOf(path, MAX_SEGMENTS)).toEqual([path]);
  });

  it.each([
    "/",
    "",
    "*",
    "/V1",
    "/v1/",
    "/v1//x",
    "/./x",
    "/x/..",
    "/%6c",
    "/a;b",
    "/é",
    "/a\\b",
    "/a#b",
    "http://h/a",
  ])("not %j", (path) => expect(isCanonical(path)).toBe(false));
});

describe("readingsOf", () => {
  it.each([
    // The target, and all of its readings.
    ["/V1/Login", ["/V1/Login"]],
    ["/v1/login?x=/../y", ["/v1/login"]],
    ["/v1/login/", ["/v1/login/", "/v1/login", "/v1/login/\0"]],
    ["/", ["/", "/\0"]],
    ["", ["/", "/\0"]],
    ["*", ["/*", "/", "/\0"]],
    ["*v1/login", ["/*v1/login", "/v1/login"]],
    ["/a/%C4%B0/b", ["/a/\u0130/b", "/a//b"]],
    ["example.com:443", ["/example.com:443", "/xample.com:443"]],
    ["/v1/%6cogin", ["/v1/%6cogin", "/v1/login"]],
    ["/v1/a%3Ab", ["/v1/a%3Ab", "/v1/a:b"]],
    ["/v1/caf%c3%a9", ["/v1/café"]],
    ["/v1/%zz%6c", ["/v1/%zz%6c", "/v1/%zzl"]],
    ["/v1/%ff%6c", ["/v1/%ff%6c", "/v1/%ffl"]],
    ["/v1/%252e%252e/x", ["/v1/%252e%252e/x", "/v1/%2e%2e/x", "/x"]],
    ["/v1/%c0%ae%c0%ae/x", ["/v1/%c0%ae%c0%ae/x"]],
    ["/a/../v1/./x", ["/a/../v1/./x", "/v1/x"]],
    ["/a/%2e%2E/x", ["/a/%2e%2E/x", "/a/../x", "/x"]],
    ["/a\\x", ["/a\\x", "/a/x", "/a//"]],
    ["/a%2fx", ["/a%2fx", "/a/x"]],
    ["/a%5cx", ["/a%5cx", "/a\\x", "/a/x"]],
    ["http://h:80/a/x", ["/a/x"]],
    ["HTTPS://u@h", ["/", "/\0"]],
    ["http:///h/x", ["/h/x", "/x"]],
    ["http://h?/a", ["/", "/\0"]],
    ["//h/x", ["//h/x", "/h/x", "/\0/h/x", "/x"]],
    ["/x\xa0", ["/x\xa0", "/x"]],
    ["/x#/../y", ["/x", "/x#/../y"]],
    // Fastify with useSemicolonDelimiter (issue 30).
    ["/v1/login;a=b", ["/v1/login;a=b", "/v1/login"]],
    ["/v1;a/login;b?c", ["/v1;a/login;b", "/v1"]],
    ["/v1/login;a=b/../x", ["/v1/login;a=b/../x", "/v1/x", "/v1/login"]],
    ["/;x", ["/;x", "/", "/\0"]],
    ["/%00", ["/%00", "/\0"]],
  ])("%j", (target, readings) => expect(readingsOf(target, MAX_SEGMENTS)).toEqual(readings));

  it.each(["/x/..", "/x/%2e%2e", "//", "/%2f/", "/\\", "/\xa0", "/;", "/%", "//h/../x/"])(
    "returns distinct paths that start with a slash for %j",
    (piece) => {
      for (const target of [piece, piece.repeat(3), `/a${piece}`, `${piece}/b/`]) {
        const readings = readingsOf(target, MAX_SEGMENTS);
        expect(new Set(readings).size).toBe(readings.length);
        for (const reading of readings) expect(reading).toMatch(/^\//);
      }
    },
  );

  it.each([
    "/a",
    "/",
    "/../a",
    "/./",
    "/%2e%2e/x",
    "%2f",
    "\\",
    "\xa0",
    "%C3%A9",
    "%ff",
    "/%ff",
    "/%f0%9f%98%80",
    "//a/..",
    "#",
    ";",
    "/;",
    "/a%",
  ])(
    "truncates a megabyte of %j in linear time",
    (piece) => {
      const readings = readingsOf(`/a${piece.repeat(1e6 / piece.length)}`, MAX_SEGMENTS);
      for (const reading of readings) expect(reading.split("/").length).toBeLessThanOrEqual(MAX_SEGMENTS + 2);
      // Quadratic time would be hours.
    },
    2000,
  );

  it("decodes exactly the sequences that decodeURIComponent accepts", () => {
    const bytes = [
      0x20, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
    ];
    const hex = [...bytes, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff].map((byte) => `%${byte.toString(16)}`);
    const isValid = (text: string) => {
      try {
        return decodeURIComponent(text) !== text;
      } catch {
        return false;
      }
    };
    for (const first of hex) {
      for (const second of ["", ...hex]) {
        for (const rest of ["", "%80", "%bf%80", "%80%80"]) {
          const text = first + second + rest;
          const isDecoded = readingsOf(`/${text}`, MAX_SEGMENTS).some((reading) => !/%/.test(reading));
          expect(isDecoded, text).toBe(isValid(text));
        }
      }
    }
  });

  it("resolves dot segments beyond the maximum number of segments", () => {
    const target = `${"/a".repeat(50)}${"/..".repeat(50)}/v1/login`;
    expect(readingsOf(target, MAX_SEGMENTS)).toEqual(["/a/a/a/a/a/a", "/v1/login"]);
  });

  it("resolves dot segments like new URL", () => {
    for (const path of [
      "/a/b/../c",
      "/a/..",
      "/a/.",
      "/..",
      "/a//../b",
      "/../../a",
      "/a/b/../../..",
      "/./",
      "/a/../",
    ]) {
      expect(readingsOf(path, MAX_SEGMENTS)).toContain(new URL(`http://h${path}`).pathname);
    }
  });
});
