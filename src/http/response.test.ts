/** Headers on a response that several limiters and the application write to. */
import { describe, expect, it } from "vitest";
import {
  addAnswerHeaders,
  addRateLimitHeaders,
  addRejectionHeaders,
  type ResponseHead,
  setFields,
} from "./response.ts";

const head: ResponseHead<Headers> = {
  get: (headers, name) => headers.get(name) ?? undefined,
  set: (headers, name, value) => headers.set(name, value),
  append: (headers, name, value) => headers.append(name, value),
  remove: (headers, name) => headers.delete(name),
};

const draft8 = (name: string, left: number) => ({
  "RateLimit-Policy": `"${name}";q=10;w=60`,
  RateLimit: `"${name}";r=${left};t=6`,
});
const old = (limit: number, left: number) => ({
  "RateLimit-Policy": `${limit};w=60`,
  RateLimit: `limit=${limit}, remaining=${left}, reset=6`,
  "RateLimit-Limit": String(limit),
  "RateLimit-Remaining": String(left),
  "RateLimit-Reset": "6",
  "X-RateLimit-Limit": String(limit),
  "X-RateLimit-Remaining": String(left),
  "X-RateLimit-Reset": "6",
});

function addFields(headers: Headers, fields: Record<string, string>, status = 200, exhausted = false): Headers {
  addRateLimitHeaders(head, headers, status, { fields, exhausted });
  return headers;
}

describe("the fields of several limiters", () => {
  it("are all listed in draft-8", () => {
    const headers = addFields(addFields(new Headers(), draft8("a", 3)), draft8("b", 1));
    expect(headers.get("RateLimit-Policy")).toBe('"a";q=10;w=60, "b";q=10;w=60');
    expect(headers.get("RateLimit")).toBe('"a";r=3;t=6, "b";r=1;t=6');
  });

  it.each([
    [10, 5, 3, 1],
    [3, 1, 10, 5],
  ])("are those of the tighter limiter in older drafts (%i/%i and %i/%i)", (limitA, leftA, limitB, leftB) => {
    const headers = addFields(addFields(new Headers(), old(limitA, leftA)), old(limitB, leftB));
    expect(headers.get("RateLimit-Policy")).toBe(`${limitA};w=60, ${limitB};w=60`);
    expect(headers.get("RateLimit")).toBe("limit=3, remaining=1, reset=6");
    for (const prefix of ["RateLimit-", "X-RateLimit-"]) {
      expect([headers.get(`${prefix}Limit`), headers.get(`${prefix}Remaining`)]).toEqual(["3", "1"]);
    }
  });

  it("are not repeated if both limiters write the same", () => {
    const headers = addFields(addFields(new Headers(), { "RateLimit-Policy": "3;w=60" }), {
      "RateLimit-Policy": "3;w=60",
    });
    expect(headers.get("RateLimit-Policy")).toBe("3;w=60");
  });
});

describe("fields that another client could read", () => {
  it.each([
    [200, "public, max-age=60", false],
    [200, "max-age=0, s-maxage=60", false],
    [200, "PUBLIC", false],
    [200, "max-age=600", false],
    [200, "no-transform, Max-Age=0", false],
    [200, 'private="x-user", max-age=60', false],
    [304, undefined, false],
    [401, undefined, false],
    [403, undefined, false],
    [101, undefined, false],
    [302, undefined, true],
  ])("are omitted: status %i, Cache-Control %s, exhausted %s", (status, cacheControl, exhausted) => {
    const headers = new Headers(cacheControl === undefined ? {} : { "Cache-Control": cacheControl });
    expect(addFields(headers, draft8("a", 0), status, exhausted).get("RateLimit")).toBeNull();
  });

  it.each([
    [200, "private, max-age=60", true],
    [200, "no-store", true],
    [200, "max-age=60, private", true],
    [200, "no-cache", true],
    [200, "no-store, max-age=0", true],
    [200, "stale-max-age=1", true],
    [200, undefined, true],
    [302, undefined, false],
    [404, undefined, true],
    [500, "x-public=1", true],
  ])("are sent: status %i, Cache-Control %s, exhausted %s", (status, cacheControl, exhausted) => {
    const headers = new Headers(cacheControl === undefined ? {} : { "Cache-Control": cacheControl });
    expect(addFields(headers, draft8("a", 0), status, exhausted).get("RateLimit")).toBe('"a";r=0;t=6');
  });
});

describe("fields on responses that a shared cache may store (issue 13)", () => {
  it.each([
    [{ Expires: "Thu, 01 Jan 2099 00:00:00 GMT" }],
    [{ "CDN-Cache-Control": "max-age=600" }],
    [{ "CDN-Cache-Control": "max-age=600", "Cache-Control": "private" }],
    [{ "Surrogate-Control": "max-age=600" }],
    [{ "Surrogate-Control": "max-age=600", "CDN-Cache-Control": "no-store" }],
    [{ "Surrogate-Control": "max-age=600", "Cache-Control": "no-store" }],
  ])("are omitted: %o", (cached) => {
    expect(addFields(new Headers(cached), draft8("a", 1)).get("RateLimit")).toBeNull();
  });

  it.each([
    [{}],
    [{ ETag: '"1"', "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT" }],
    [{ Expires: "0" }],
    [{ Expires: "-1", "Cache-Control": "no-cache" }],
    [{ Expires: "Thu, 01 Jan 2099 00:00:00 GMT", "Cache-Control": "private" }],
    [{ "CDN-Cache-Control": "no-store" }],
    [{ "Surrogate-Control": "no-store" }],
  ])("are sent: %o", (headers) => {
    expect(addFields(new Headers(headers), draft8("a", 1)).get("RateLimit")).toBe('"a";r=1;t=6');
  });
});

describe("CORS", () => {
  it("exposes each field once if another origin may read the response", () => {
    const headers = new Headers({
      "Access-Control-Allow-Origin": "*",
      "Access-Control-Expose-Headers": "X-A, ratelimit",
    });
    addFields(addFields(headers, draft8("a", 3)), draft8("b", 1));
    expect(headers.get("Access-Control-Expose-Headers")).toBe("X-A, ratelimit, Retry-After, RateLimit-Policy");
    expect(addFields(new Headers(), draft8("a", 3)).get("Access-Control-Expose-Headers")).toBeNull();
  });
});

describe("a rejection", () => {
  it("removes validators and expiry, and keeps the fields of other limiters", () => {
    const headers = new Headers({
      ETag: "x",
      "Last-Modified": "y",
      Expires: "z",
      "Cache-Control": "public",
      "X-Own": "1",
    });
    addFields(new Headers(), draft8("a", 3)).forEach((value, name) => void headers.set(name, value));
    addRejectionHeaders(head, headers, { "Retry-After": "6", ...draft8("b", 0), "Cache-Control": "no-store" });
    expect(Object.fromEntries(headers)).toEqual({
      "cache-control": "no-store",
      ratelimit: '"a";r=3;t=6, "b";r=0;t=6',
      "ratelimit-policy": '"a";q=10;w=60, "b";q=10;w=60',
      "retry-after": "6",
      "x-own": "1",
    });
  });
});

describe("fields that are set whatever the status is", () => {
  it("replace earlier values, and add cookies in any spelling of the name", () => {
    const headers = new Headers({ "X-Own": "before", "Set-Cookie": "a=1" });
    setFields(head, headers, { "x-own": "after", "SET-COOKIE": ["b=2", "c=3"], "set-cookie": "d=4" });
    // Runtimes list cookies before or after other fields.
    expect(headers.getSetCookie()).toEqual(["a=1", "b=2", "c=3", "d=4"]);
    expect(headers.get("x-own")).toBe("after");
  });

  it("are those of an answer, which replaces RateLimit fields and validators, and exposes nothing", () => {
    const headers = new Headers({
      ETag: "old",
      Expires: "0",
      RateLimit: '"outer";r=1;t=1',
      "Access-Control-Allow-Origin": "*",
    });
    addAnswerHeaders(head, headers, { ETag: "new", RateLimit: '"own";r=0;t=6' });
    expect([...headers]).toEqual([
      ["access-control-allow-origin", "*"],
      ["etag", "new"],
      ["ratelimit", '"own";r=0;t=6'],
    ]);
  });
});
