/** Cases about responses: header fields, bodies of rejections, and where fields are omitted. */
import { wallClockMs } from "../../base/clock.ts";
import { check, checkEqual } from "../check.ts";
import { type MiddlewareCase, slow } from "./case.ts";
import { expectNoFields } from "./client.ts";

const HOUR_S = 3600;

export const responseCases: readonly MiddlewareCase[] = [
  {
    title: "writes draft-8 fields by default, on allowed and denied responses",
    routes: { draft8: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(2, "api")) }] }) },
    async drive({ send }) {
      for (const left of [1, 0, 0]) {
        const { header } = await send("/draft8");
        checkEqual(header("RateLimit-Policy"), '"api";q=2;w=86400', "RateLimit-Policy");
        check(
          new RegExp(`^"api";r=${left};t=\\d+$`).test(header("RateLimit") ?? ""),
          `RateLimit: ${header("RateLimit")}`,
        );
        checkEqual(header("RateLimit-Limit"), null, "RateLimit-Limit");
      }
    },
  },
  {
    title: "writes draft-7, draft-6 and legacy fields, or none, as headers requires",
    routes: {
      draft7: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(2, "seven")), headers: "draft-7" }] }),
      draft6: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(2, "six")), headers: "draft-6" }] }),
      legacy: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(2, "old")), headers: ["draft-8", "legacy"] }] }),
      bare: ({ limiter }) => ({ rateLimits: [{ limiter: limiter(slow(1, "bare")), headers: false }] }),
    },
    async drive({ send }) {
      for (const left of [1, 0, 0]) {
        const seven = await send("/draft7");
        checkEqual(seven.header("RateLimit-Policy"), "2;w=86400", "draft-7 policy");
        const field = seven.header("RateLimit") ?? "";
        check(new RegExp(`^limit=2, remaining=${left}, reset=\\d+$`).test(field), `draft-7 RateLimit: ${field}`);
        const six = await send("/draft6");
        checkEqual(six.header("RateLimit-Policy"), "2;w=86400", "draft-6 policy");
        checkEqual([six.header("RateLimit-Limit"), six.header("RateLimit-Remaining")], ["2", String(left)], "draft-6");
        check(Number(six.header("RateLimit-Reset")) > 0, `draft-6 reset: ${six.header("RateLimit-Reset")}`);
        if (six.status === 429)
          checkEqual(six.header("RateLimit-Reset"), six.header("Retry-After"), "the reset of a denial");
        const legacy = await send("/legacy");
        checkEqual(
          [legacy.header("X-RateLimit-Limit"), legacy.header("X-RateLimit-Remaining")],
          ["2", String(left)],
          "legacy",
        );
        const inSeconds = Number(legacy.header("X-RateLimit-Reset")) - wallClockMs() / 1000;
        check(inSeconds > 0 && inSeconds <= 24 * HOUR_S + 1, `X-RateLimit-Reset in ${inSeconds} s`);
        check(legacy.header("RateLimit")?.startsWith(`"old";r=${left}`) === true, "draft-8 beside legacy");
      }
      for (const status of [200, 429]) {
        const response = await send("/bare");
        checkEqual(response.status, status, "without fields");
        expectNoFields(response, "without fields");
      }
    },
  },
  {
    title: "names the unit of a policy in fields and in the 429, and the text that a policy was written as",
    routes: {
      tokens: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter({ ...slow(2, "budget"), unit: "tokens" }), cost: 2 }],
      }),
      written: () => ({ rateLimits: [{ policy: "1/15m" }] }),
    },
    async drive({ send }) {
      const first = await send("/tokens");
      checkEqual(first.header("RateLimit-Policy"), '"budget";q=2;qu="tokens";w=86400', "RateLimit-Policy");
      const denied = await send("/tokens");
      checkEqual([denied.status, denied.json().detail], [429, "Limit of 2 tokens per 86400 s reached."], "the detail");
      const text = await send("/tokens", { headers: { Accept: "text/plain" } });
      check(text.text.includes("Limit of 2 tokens per 86400 s reached."), `the text: ${text.text}`);
      const written = await send("/written");
      checkEqual(written.header("RateLimit-Policy"), '"1/15m";q=1;w=900', "the name of a policy without one");
    },
  },
  {
    title: "lists every policy of a combination, and charges all or nothing",
    routes: {
      combined: () => ({
        rateLimits: [{ policies: [slow(3, "small"), { capacity: 5, tokensPerSecond: "1/h", name: "large" }] }],
      }),
    },
    async drive({ send }) {
      const first = await send("/combined");
      checkEqual(first.header("RateLimit-Policy"), '"small";q=3;w=86400, "large";q=5;w=18000', "RateLimit-Policy");
      const fields = first.header("RateLimit") ?? "";
      check(/^"small";r=2;t=\d+, "large";r=4;t=\d+$/.test(fields), `RateLimit: ${fields}`);
      await send("/combined");
      await send("/combined");
      const denied = await send("/combined");
      checkEqual([denied.status, denied.json()["violated-policies"]], [429, ["small"]], "the fourth");
      const left = denied.header("RateLimit") ?? "";
      check(/^"small";r=0;t=\d+, "large";r=2;t=\d+$/.test(left), `a denial charges nothing: ${left}`);
    },
  },
  {
    title: "adds its fields to those of other limiters on the same response",
    routes: {
      stacked: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(9, "outer")) }, { limiter: limiter(slow(1, "inner")) }],
      }),
      stackedOld: ({ limiter }) => ({
        rateLimits: [
          { limiter: limiter(slow(9, "outer-old")), headers: ["draft-6", "draft-7", "legacy"] },
          { limiter: limiter(slow(3, "inner-old")), headers: ["draft-6", "draft-7", "legacy"] },
        ],
      }),
    },
    async drive({ send }) {
      for (const status of [200, 429]) {
        const response = await send("/stacked");
        checkEqual(response.status, status, "two limiters");
        for (const name of ["RateLimit", "RateLimit-Policy"]) {
          const names = (response.header(name) ?? "").split(", ").map((item) => item.split(";")[0]);
          checkEqual(names.sort(), ['"inner"', '"outer"'], `${name} of ${status}`);
        }
      }
      const old = await send("/stackedOld");
      checkEqual(
        [old.header("RateLimit-Limit"), old.header("RateLimit-Remaining")],
        ["3", "2"],
        "draft-6, the tighter",
      );
      checkEqual(
        [old.header("X-RateLimit-Limit"), old.header("X-RateLimit-Remaining")],
        ["3", "2"],
        "legacy, the tighter",
      );
      check(
        old.header("RateLimit")?.startsWith("limit=3, remaining=2, ") === true,
        `draft-7: ${old.header("RateLimit")}`,
      );
    },
  },
  {
    title: "sends the body of onLimited with the headers of the rejection",
    routes: {
      customStatus: ({ limiter, kit }) => ({
        rateLimits: [
          {
            limiter: limiter(slow(1, "custom-status")),
            cost: (...args) => (kit.header(args, "x-status") ? 2 : 1),
            onLimited: ({ args }) => kit.respondWith(args, "limited", Number(kit.header(args, "x-status"))),
          },
        ],
      }),
      custom: ({ limiter, kit }) => ({
        rateLimits: [
          {
            limiter: limiter(slow(1, "custom")),
            onLimited: ({ args, key }) => kit.respondWith(args, `slow down, ${key}`),
          },
        ],
      }),
    },
    async drive({ send, as }) {
      const headers = as("203.0.113.30");
      checkEqual((await send("/custom", { headers })).status, 200, "the first");
      const denied = await send("/custom", { headers });
      checkEqual([denied.status, denied.text], [429, "slow down, ip:203.0.113.30"], "the second");
      check(Number(denied.header("Retry-After")) >= 1, `Retry-After: ${denied.header("Retry-After")}`);
      checkEqual(
        [denied.header("Cache-Control"), denied.header("RateLimit-Policy")],
        ["no-store", '"custom";q=1;w=86400'],
        "head",
      );
      // A status below 400 is replaced: a client must not take a rejection for success (issue 13).
      for (const [given, sent] of [
        [503, 503],
        [420, 420],
        [400, 400],
        [200, 429],
        [302, 429],
      ] as const) {
        const { status, text, header } = await send("/customStatus", { headers: { "X-Status": String(given) } });
        checkEqual([status, text, header("Cache-Control")], [sent, "limited", "no-store"], `onLimited sets ${given}`);
      }
    },
  },
  {
    title: "exposes its fields to cross-origin scripts besides those of the application",
    routes: {
      cors: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(1, "cors")) }],
        before: {
          "Access-Control-Allow-Origin": "https://elsewhere.example",
          "Access-Control-Expose-Headers": "X-Own",
        },
      }),
    },
    async drive({ send }) {
      for (const status of [200, 429]) {
        const response = await send("/cors");
        checkEqual(
          [response.status, response.header("Access-Control-Allow-Origin")],
          [status, "https://elsewhere.example"],
          "CORS",
        );
        const exposed = (response.header("Access-Control-Expose-Headers") ?? "").split(", ");
        checkEqual(
          exposed.sort(),
          ["RateLimit", "RateLimit-Policy", "Retry-After", "X-Own"],
          `exposed headers on ${status}`,
        );
      }
    },
  },
  {
    title: "omits its fields where another client could read them",
    routes: {
      withheld: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(99, "withheld")) }],
        handle: (path) => WITHHELD[path.split("/")[2] ?? ""] ?? (path.endsWith("/private") ? PRIVATE : {}),
      }),
      lastRedirect: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(1, "last")) }],
        handle: () => ({ status: 302, headers: { Location: "/seen" } }),
      }),
      denialNotCached: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(1, "not-cached")) }],
        before: { "Cache-Control": "public, max-age=60", ETag: '"one"', Expires: "Thu, 01 Jan 2099 00:00:00 GMT" },
      }),
    },
    async drive({ send }) {
      for (const [name, { status = 200 }] of Object.entries(WITHHELD)) {
        const response = await send(`/withheld/${name}`);
        checkEqual(response.status, status, name);
        expectNoFields(response, name);
      }
      check((await send("/withheld/plain")).header("RateLimit") !== null, "another response has fields");
      check((await send("/withheld/private")).header("RateLimit") !== null, "a private response has fields");
      const redirect = await send("/lastRedirect");
      checkEqual(redirect.status, 302, "a redirect");
      expectNoFields(redirect, "a redirect with nothing left");
      await send("/denialNotCached");
      const denied = await send("/denialNotCached");
      checkEqual([denied.status, denied.header("Cache-Control")], [429, "no-store"], "a denial");
      checkEqual(
        [denied.header("ETag"), denied.header("Expires")],
        [null, null],
        "validators of the replaced response",
      );
    },
  },
];

const PRIVATE = { headers: { "Cache-Control": "private, max-age=60", Expires: "Thu, 01 Jan 2099 00:00:00 GMT" } };
const WITHHELD: Record<string, { status?: number; headers?: Record<string, string>; body?: string }> = {
  public: { headers: { "Cache-Control": "public, max-age=60" } },
  shared: { headers: { "Cache-Control": "s-maxage=60" } },
  aged: { headers: { "Cache-Control": "max-age=60" } },
  expiring: { headers: { Expires: "Thu, 01 Jan 2099 00:00:00 GMT" } },
  forCdn: { headers: { "Cache-Control": "private", "CDN-Cache-Control": "max-age=60" } },
  forSurrogate: { headers: { "Surrogate-Control": "max-age=60" } },
  unchanged: { status: 304, body: "" },
  unauthorized: { status: 401 },
  forbidden: { status: 403 },
};
