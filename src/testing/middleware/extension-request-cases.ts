/** Cases about what an extension of the gate sees of a request, and about its errors. */
import type { ResponseData } from "../../http/rejection.ts";
import { checkEqual } from "../check.ts";
import { type MiddlewareCase, slow } from "./case.ts";
import { extended, streamOf } from "./extension-cases.ts";

const MAX_BYTES = 16;

function json(value: unknown): ResponseData {
  return { status: 200, headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) };
}

export const extensionRequestCases: readonly MiddlewareCase[] = [
  {
    title: "passes method, raw path and headers of a request to an extension, before it is counted",
    routes: {
      owned: ({ limiter }) => ({
        rateLimits: [
          extended({ limiter: limiter(slow(1, "owned")) }, (request) => {
            const { method, path } = request;
            return path.startsWith("/owned/.sluice/") ? json([method, path, request.header("x-own")]) : undefined;
          }),
        ],
      }),
    },
    async drive({ send, statuses }) {
      for (const target of ["/owned/.sluice/clearance", "/owned/.sluice/a%2Fb%7Ec?x=%41&y"]) {
        const { text } = await send(target, { method: "DELETE", headers: { "X-Own": "yes" } });
        checkEqual(JSON.parse(text), ["DELETE", target, "yes"], target);
      }
      checkEqual(await statuses(2, "/owned/other"), [200, 429], "other requests");
    },
  },
  {
    title: "does not call an extension for requests that are skipped, and for preflights",
    routes: {
      notExtended: ({ limiter, kit }) => ({
        rateLimits: [
          extended(
            {
              limiter: limiter(slow(9, "not-extended")),
              skip: (...args) => kit.header(args, "x-skip") !== undefined,
            },
            () => json("extended"),
          ),
        ],
      }),
    },
    async drive({ send }) {
      checkEqual((await send("/notExtended")).text, '"extended"', "a request");
      checkEqual((await send("/notExtended", { headers: { "X-Skip": "1" } })).text, "ok", "a skipped request");
      const headers = { Origin: "https://elsewhere.example", "Access-Control-Request-Method": "POST" };
      checkEqual((await send("/notExtended", { method: "OPTIONS", headers })).text, "ok", "a preflight");
    },
  },
  {
    title: "reads the body of a request that an extension answers, up to a size",
    routes: {
      bodies: ({ limiter }) => ({
        rateLimits: [
          extended({ limiter: limiter(slow(9, "bodies")) }, async (request) => {
            const body = await request.body(MAX_BYTES);
            return json(body instanceof Uint8Array ? new TextDecoder().decode(body) : (body ?? null));
          }),
        ],
      }),
    },
    async drive({ send }) {
      const full = "x".repeat(MAX_BYTES);
      const bodies: [string, RequestInit["body"], string | null][] = [
        ["text", "token=1&b=%20", "token=1&b=%20"],
        ["the longest text", full, full],
        ["text that is too long", `${full}x`, null],
        ["no body", undefined, ""],
        ["a stream", streamOf("to", "ken", "=1"), "token=1"],
        ["a stream that is too long", streamOf(full, "x"), null],
        ["text again", "after", "after"],
      ];
      for (const [what, body, expected] of bodies) {
        const headers = { "Content-Type": "application/x-www-form-urlencoded" };
        const sent = await send("/bodies", {
          method: "POST",
          headers,
          duplex: "half",
          ...(body === undefined ? {} : { body }),
        });
        checkEqual([sent.status, JSON.parse(sent.text)], [200, expected], what);
      }
    },
  },
  {
    title: "treats an error of an extension like one of key",
    routes: {
      extensionThrows: ({ limiter }) => ({
        rateLimits: [
          extended({ limiter: limiter(slow(9, "extension-throws")) }, () => {
            throw new Error("on purpose");
          }),
        ],
      }),
      extensionAllowed: ({ limiter }) => ({
        rateLimits: [
          extended({ limiter: limiter(slow(9, "extension-allowed")), onError: () => "allow" }, async () => {
            throw new Error("on purpose");
          }),
        ],
      }),
    },
    async drive({ send, seen }) {
      checkEqual((await send("/extensionThrows")).status, 500, "an error");
      checkEqual((await send("/extensionAllowed")).text, "ok", "an error that is allowed");
      for (const name of ["extensionThrows", "extensionAllowed"]) {
        checkEqual((await seen(name)).errors, ["on purpose"], `errors of ${name}`);
      }
    },
  },
];
