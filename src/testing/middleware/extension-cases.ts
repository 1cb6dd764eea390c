/** Cases about what an extension of the gate adds to responses, and about its answers. */
import type { ResponseData } from "../../http/rejection.ts";
import { EXTENSION, type GateExtension } from "../../middleware/gate/extension.ts";
import { check, checkEqual } from "../check.ts";
import { type MiddlewareCase, slow } from "./case.ts";
import { expectNoFields } from "./client.ts";
import type { PlainResponse, RouteOptions } from "./guarded-route.ts";

type Enter = GateExtension<readonly unknown[]>["enter"];

/** The options with an extension. */
export function extended(options: RouteOptions, enter: Enter): RouteOptions {
  return { ...options, [EXTENSION]: { enter } } as RouteOptions;
}

const SET = { "X-Extension": "yes", "Set-Cookie": ["one=1; Path=/", "two=2; Path=/"] };
const OWN_COOKIES = ["own=1; Path=/", "own=2; Path=/"];

const RESPONSES: Record<string, () => Partial<PlainResponse>> = {
  plain: () => ({}),
  replaced: () => ({ headers: { "X-Extension": "no" } }),
  created: () => ({ status: 201, headers: { "Set-Cookie": OWN_COOKIES } }),
  empty: () => ({ status: 204, body: "" }),
  moved: () => ({ status: 302, headers: { Location: "/seen" } }),
  unchanged: () => ({ status: 304, body: "" }),
  unauthorized: () => ({ status: 401 }),
  forbidden: () => ({ status: 403 }),
  failed: () => ({ status: 500 }),
  public: () => ({ headers: { "Cache-Control": "public, max-age=60" } }),
  bytes: () => ({ headers: { "Content-Type": "application/octet-stream" }, body: new Uint8Array([0, 255, 128]) }),
  stream: () => ({ headers: { "Set-Cookie": OWN_COOKIES }, body: streamOf("a", "b") }),
};

/** A stream of text. */
export function streamOf(...texts: string[]): ReadableStream<Uint8Array<ArrayBuffer>> {
  return new ReadableStream({
    start(controller) {
      for (const text of texts) controller.enqueue(new TextEncoder().encode(text));
      controller.close();
    },
  });
}

const respond = (path: string) => RESPONSES[path.split("/")[2] ?? ""]?.() ?? {};

const ANSWERS: Record<string, ResponseData> = {
  page: { status: 403, headers: { "Content-Type": "text/html; charset=utf-8" }, body: "<p>Grüße</p>" },
  bare: { status: 200, headers: { "Content-Type": "text/html" }, body: "<p>" },
  json: { status: 201, headers: { "Content-Type": "application/json" }, body: '{"a":1}' },
  problem: { status: 409, headers: { "content-type": "application/problem+json", "Retry-After": "1" }, body: "{}" },
  bytes: { status: 200, headers: { "Content-Type": "image/x-own" }, body: new Uint8Array([0, 255, 128, 10]) },
  empty: { status: 204, headers: { "Set-Cookie": ["one=1; Path=/", "two=2; Path=/"] }, body: null },
  unchanged: { status: 304, headers: { ETag: '"own"', "Set-Cookie": "one=1; Path=/" }, body: null },
  moved: { status: 301, headers: { Location: "/elsewhere" }, body: null },
  last: { status: 599, headers: { "Content-Type": "text/plain" }, body: "" },
};

export const extensionCases: readonly MiddlewareCase[] = [
  {
    title: "sets the fields of an extension on every response, and adds its cookies to those of the handler",
    routes: {
      set: ({ limiter }) => ({
        rateLimits: [extended({ limiter: limiter(slow(99, "set")) }, () => ({ set: SET }))],
        handle: respond,
      }),
      setAlone: ({ limiter }) => ({
        rateLimits: [
          extended({ limiter: limiter(slow(99, "set-alone")), headers: false }, async () => ({ set: SET })),
          extended({ limiter: limiter(slow(99, "set-inner")), mode: "shadow" }, () => ({ set: { "X-Inner": "yes" } })),
        ],
        handle: respond,
      }),
    },
    async drive({ send }) {
      for (const path of ["/set", "/setAlone"]) {
        for (const [name, response] of Object.entries(RESPONSES)) {
          const { status = 200, headers = {} } = response();
          const own = headers["Set-Cookie"] ?? [];
          for (const method of ["GET", "HEAD"]) {
            const sent = await send(`${path}/${name}`, { method });
            const what = `${method} ${path}/${name}`;
            checkEqual([sent.status, sent.header("X-Extension")], [status, "yes"], what);
            checkEqual([...sent.cookies], [...own, ...SET["Set-Cookie"]], `cookies of ${what}`);
            checkEqual(sent.header("X-Inner"), path === "/set" ? null : "yes", `the inner field of ${what}`);
          }
        }
      }
      check((await send("/set/plain")).header("RateLimit") !== null, "RateLimit fields are sent as well");
      checkEqual((await send("/set/stream")).text, "ab", "a stream");
    },
  },
  {
    title: "sets the fields of an extension on the response to a handler that throws",
    routes: {
      setThrown: ({ limiter }) => ({
        rateLimits: [extended({ limiter: limiter(slow(9, "set-thrown")) }, () => ({ set: SET }))],
        handle() {
          throw new Error("on purpose");
        },
      }),
    },
    async drive({ send }) {
      const { status, header, cookies } = await send("/setThrown");
      checkEqual([status, header("X-Extension"), cookies.length], [500, "yes", 2], "an error");
    },
  },
  {
    title: "sets the fields of an extension on rejections and on requests that are not counted",
    routes: {
      setRejected: ({ limiter }) => ({
        rateLimits: [extended({ limiter: limiter(slow(1, "set-rejected")) }, () => ({ set: SET }))],
      }),
      setCustom: ({ limiter, kit }) => ({
        rateLimits: [
          extended(
            { limiter: limiter(slow(1, "set-custom")), onLimited: ({ args }) => kit.respondWith(args, "custom") },
            () => ({ set: SET }),
          ),
        ],
      }),
      setUncounted: () => ({
        rateLimits: [extended({ limits: [{ limiter: () => undefined }] }, () => ({ set: SET }))],
      }),
      setAfterError: ({ limiter }) => ({
        rateLimits: [
          extended(
            {
              limiter: limiter(slow(1, "set-after-error")),
              key: () => Promise.reject(new Error("on purpose")),
              onError: () => "allow",
            },
            () => ({ set: SET }),
          ),
        ],
      }),
    },
    async drive({ send }) {
      const expected: [string, number, string | undefined][] = [
        ["/setRejected", 200, "ok"],
        ["/setRejected", 429, undefined],
        ["/setCustom", 200, "ok"],
        ["/setCustom", 429, "custom"],
        ["/setUncounted", 200, "ok"],
        ["/setAfterError", 200, "ok"],
      ];
      for (const [path, status, text] of expected) {
        const sent = await send(path);
        checkEqual([sent.status, sent.header("X-Extension"), sent.cookies.length], [status, "yes", 2], path);
        if (text !== undefined) checkEqual(sent.text, text, path);
      }
    },
  },
  {
    title: "sends the answer of an extension with any status, body and content type, and does not count it",
    routes: {
      answered: ({ limiter }) => ({
        rateLimits: [
          extended(
            {
              limiter: limiter(slow(1, "answered")),
              onLimited() {
                throw new Error("an answer is not a rejection");
              },
            },
            ({ path }) => ANSWERS[path.split("/")[2] ?? ""],
          ),
        ],
      }),
    },
    async drive({ send, seen }) {
      for (const [name, { status, headers, body }] of Object.entries(ANSWERS)) {
        const sent = await send(`/answered/${name}`);
        checkEqual(sent.status, status, name);
        const expected = typeof body === "string" ? new TextEncoder().encode(body) : (body ?? new Uint8Array());
        checkEqual([...sent.bytes], [...expected], `the body of ${name}`);
        for (const [field, value] of Object.entries(headers)) {
          const isCookie = field === "Set-Cookie";
          checkEqual(isCookie ? [...sent.cookies] : sent.header(field), isCookie ? [value].flat() : value, name);
        }
        expectNoFields(sent, name);
      }
      const head = await send("/answered/page", { method: "HEAD" });
      checkEqual([head.status, head.text, head.header("Content-Type")], [403, "", "text/html; charset=utf-8"], "HEAD");
      const { handled, decisions, errors } = await seen("answered");
      checkEqual([handled, decisions, errors], [0, [], []], "the log");
      checkEqual((await send("/answered")).status, 200, "a request without an answer");
      checkEqual((await send("/answered/json")).status, 201, "an answer after the limit is reached");
    },
  },
  {
    title: "keeps headers of earlier middleware on an answer, without the validators",
    routes: {
      answeredLater: ({ limiter }) => ({
        rateLimits: [
          extended({ limiter: limiter(slow(1, "answered-later")) }, async () => ({
            status: 200,
            headers: { "Content-Type": "text/plain", "Set-Cookie": "one=1; Path=/" },
            body: "answer",
          })),
        ],
        before: {
          "Access-Control-Allow-Origin": "https://elsewhere.example",
          "Set-Cookie": "before=1; Path=/",
          ETag: '"old"',
        },
      }),
    },
    async drive({ send }) {
      const { text, header, cookies } = await send("/answeredLater");
      checkEqual([text, header("Access-Control-Allow-Origin")], ["answer", "https://elsewhere.example"], "the answer");
      checkEqual([header("ETag"), header("Access-Control-Expose-Headers")], [null, null], "other headers");
      checkEqual([...cookies], ["before=1; Path=/", "one=1; Path=/"], "cookies");
    },
  },
];
