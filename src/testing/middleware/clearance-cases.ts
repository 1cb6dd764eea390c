/** Cases about clearances: the responses that carry one, and the requests that ask for one. */
import { abuse } from "../../abuse/abuse.ts";
import { challenge } from "../../abuse/challenge/challenge.ts";
import { loadRules } from "../../rules/define-rules.ts";
import type { RulesData } from "../../rules/rules-data.ts";
import { check, checkEqual } from "../check.ts";
import { PROVIDER } from "./abuse-cases.ts";
import { type MiddlewareCase, streamOf } from "./case.ts";
import type { Client, TestResponse } from "./client.ts";
import type { PlainResponse, RouteOptions } from "./guarded-route.ts";

/** The options of a route that gives a clearance to requests with the token, and to solutions sent to `/clearance`. */
function clearing(route: string, fallback: RulesData["fallback"], facts: readonly string[] = []): RouteOptions {
  const rules = [{ name: "challenged", match: `/${route}/challenged`, limits: { ip: "1/d" }, action: "challenge" }];
  const path = `/${route}/clearance`;
  return {
    rules: loadRules({ rules, fallback } as RulesData, { facts }),
    abuse: abuse({
      challenge: challenge({ provider: PROVIDER, secret: ["0123456789abcdef0123456789abcdef"], path }),
    }),
  };
}

const FALLBACK = { limits: { ip: "9/d" } } as const;

/** The headers of a client that has solved a challenge. Each address may try 20 times a minute. */
function solved({ as }: Client, address: string): Record<string, string> {
  return { ...as(address), "User-Agent": "suite", "Sluice-Challenge-Token": "solved" };
}

/** Checks that a response has the clearance, and its cookie after those of the application. */
function checkCleared({ header, cookies }: TestResponse, own: readonly string[], what: string): void {
  const text = header("Sluice-Clearance");
  check(text !== null, `${what}: the clearance`);
  checkEqual(cookies.slice(0, -1), own, `${what}: cookies of the application`);
  check(cookies.at(-1)?.includes(`=${text};`) === true, `${what}: the cookie of the clearance: ${cookies}`);
  // A cache would send the clearance to other clients.
  checkEqual(header("Cache-Control"), "no-store", `${what}: caching`);
}

const OWN_COOKIES = ["own=1; Path=/", "own=2; Path=/"];
const RESPONSES: Record<string, () => Partial<PlainResponse>> = {
  plain: () => ({}),
  replaced: () => ({ headers: { "Sluice-Clearance": "own" } }),
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

const respond = (path: string) => RESPONSES[path.split("/")[2] ?? ""]?.() ?? {};

export const clearanceCases: readonly MiddlewareCase[] = [
  {
    title: "sets a clearance on every response, and adds its cookie to those of the handler",
    routes: {
      cleared: () => ({ rateLimits: [clearing("cleared", FALLBACK)], handle: respond }),
      clearedAlone: () => ({
        rateLimits: [
          { ...clearing("clearedAlone", FALLBACK), headers: false },
          { ...clearing("clearedAlone", FALLBACK), mode: "shadow" },
        ],
        handle: respond,
      }),
    },
    async drive(client) {
      let host = 0;
      for (const path of ["/cleared", "/clearedAlone"]) {
        for (const [name, response] of Object.entries(RESPONSES)) {
          const { status = 200, headers: { "Set-Cookie": own = [] } = {} } = response();
          for (const method of ["GET", "HEAD"]) {
            const headers = solved(client, `198.51.100.${++host}`);
            const sent = await client.send(`${path}/${name}`, { method, headers });
            checkEqual(sent.status, status, `${method} ${path}/${name}`);
            checkCleared(sent, own as readonly string[], `${method} ${path}/${name}`);
            if (name === "stream" && method === "GET") checkEqual(sent.text, "ab", "a stream");
            if (name === "plain") {
              checkEqual(sent.header("RateLimit") !== null, path === "/cleared", `RateLimit fields of ${path}`);
            }
          }
        }
      }
    },
  },
  {
    title: "sets a clearance on the response to a handler that throws",
    routes: {
      clearedThrown: () => ({
        rateLimits: [clearing("clearedThrown", FALLBACK)],
        handle() {
          throw new Error("on purpose");
        },
      }),
    },
    async drive(client) {
      const sent = await client.send("/clearedThrown", { headers: solved(client, "198.51.100.60") });
      checkEqual(
        [sent.status, sent.header("Sluice-Clearance") !== null, sent.cookies.length],
        [500, true, 1],
        "an error",
      );
    },
  },
  {
    title: "sets a clearance on rejections, and on requests that are not counted",
    routes: {
      clearedRejected: () => ({ rateLimits: [clearing("clearedRejected", { limits: { ip: "1/d" } })] }),
      clearedCustom: ({ kit }) => ({
        rateLimits: [
          {
            ...clearing("clearedCustom", { limits: { ip: "1/d" } }),
            onLimited: ({ args }) => kit.respondWith(args, "custom"),
          },
        ],
      }),
      clearedUncounted: () => ({ rateLimits: [clearing("clearedUncounted", "unlimited")] }),
      clearedAfterError: () => ({
        rateLimits: [
          {
            ...clearing("clearedAfterError", { limits: { ip: "1/d", tenant: "1/d" } }, ["tenant"]),
            facts: { tenant: () => Promise.reject(new Error("on purpose")) },
            onError: () => "allow",
          },
        ],
      }),
    },
    async drive(client) {
      const expected: [string, number, string | undefined][] = [
        ["/clearedRejected", 200, "ok"],
        ["/clearedRejected", 429, undefined],
        ["/clearedCustom", 200, "ok"],
        ["/clearedCustom", 429, "custom"],
        ["/clearedUncounted", 200, "ok"],
        ["/clearedAfterError", 200, "ok"],
      ];
      for (const [path, status, text] of expected) {
        const sent = await client.send(path, { headers: solved(client, "198.51.100.61") });
        checkEqual(sent.status, status, path);
        checkCleared(sent, [], `${status} ${path}`);
        if (text !== undefined) checkEqual(sent.text, text, path);
      }
      checkEqual((await client.seen("clearedAfterError")).errors, ["on purpose"], "errors");
    },
  },
  {
    title: "keeps headers of earlier middleware on an answer, without the validators",
    routes: {
      clearedLater: () => ({
        rateLimits: [clearing("clearedLater", FALLBACK)],
        before: {
          "Access-Control-Allow-Origin": "https://elsewhere.example",
          "Set-Cookie": "before=1; Path=/",
          ETag: '"old"',
        },
      }),
    },
    async drive(client) {
      const { "Sluice-Challenge-Token": token, ...headers } = solved(client, "198.51.100.62");
      const body = new URLSearchParams({ token: token ?? "" });
      const sent = await client.send("/clearedLater/clearance", { method: "POST", headers, body });
      checkEqual([sent.status, sent.text], [204, ""], "the answer");
      checkEqual(
        [sent.header("Access-Control-Allow-Origin"), sent.header("ETag")],
        ["https://elsewhere.example", null],
        "other headers",
      );
      checkCleared(sent, ["before=1; Path=/"], "the answer");
    },
  },
  {
    title: "reads the solution of a challenge from a body, up to a size",
    routes: { solutions: () => ({ rateLimits: [clearing("solutions", FALLBACK)] }) },
    async drive(client) {
      const { "Sluice-Challenge-Token": _, ...known } = solved(client, "198.51.100.63");
      const padded = (length: number): string => "token=solved&x=".padEnd(length, "x");
      const form = "application/x-www-form-urlencoded";
      const bodies: [string, RequestInit["body"], string, number][] = [
        ["JSON", '{"token":"solved"}', "application/json", 204],
        ["a form", "a=%20&suite-response=solved", form, 204],
        ["the longest form", padded(8192), form, 204],
        ["a form that is too long", padded(8193), form, 403],
        ["no body", undefined, form, 403],
        ["a stream", streamOf("to", "ken", "=solved"), form, 204],
        ["a stream that is too long", streamOf(padded(8192), "x"), form, 403],
        ["a form again", "token=solved", form, 204],
      ];
      for (const [what, body, type, status] of bodies) {
        const headers = { ...known, "Content-Type": type };
        const init = { method: "POST", headers, duplex: "half" as const, ...(body === undefined ? {} : { body }) };
        checkEqual((await client.send("/solutions/clearance?x=%41&y", init)).status, status, what);
      }
      checkEqual((await client.seen("solutions")).handled, 0, "handled");
    },
  },
];
