/** What a response tells, and where it tells nothing. */
import { wallClockMs } from "../../core/clock.ts";
import { check, checkEqual as same } from "../check.ts";
import { type MiddlewareCase, slow } from "./case.ts";
import { tellsNothing } from "./client.ts";

const HOUR_S = 3600;

export const tellingCases: readonly MiddlewareCase[] = [
  {
    title: "writes draft-8 fields by default, on allowed and denied responses",
    routes: { draft8: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(2, "api")) }] }) },
    async drive({ ask }) {
      for (const left of [1, 0, 0]) {
        const { header } = await ask("/draft8");
        same(header("RateLimit-Policy"), '"api";q=2;w=86400', "RateLimit-Policy");
        check(
          new RegExp(`^"api";r=${left};t=\\d+$`).test(header("RateLimit") ?? ""),
          `RateLimit: ${header("RateLimit")}`,
        );
        same(header("RateLimit-Limit"), null, "RateLimit-Limit");
      }
    },
  },
  {
    title: "writes draft-7, draft-6 and legacy fields where they are asked for, and none where they are not",
    routes: {
      draft7: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(2, "seven")), headers: "draft-7" }] }),
      draft6: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(2, "six")), headers: "draft-6" }] }),
      legacy: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(2, "old")), headers: ["draft-8", "legacy"] }] }),
      bare: ({ limiter }) => ({ guards: [{ limiter: limiter(slow(1, "bare")), headers: false }] }),
    },
    async drive({ ask }) {
      for (const left of [1, 0, 0]) {
        const seven = await ask("/draft7");
        same(seven.header("RateLimit-Policy"), "2;w=86400", "draft-7 policy");
        const field = seven.header("RateLimit") ?? "";
        check(new RegExp(`^limit=2, remaining=${left}, reset=\\d+$`).test(field), `draft-7 RateLimit: ${field}`);
        const six = await ask("/draft6");
        same(six.header("RateLimit-Policy"), "2;w=86400", "draft-6 policy");
        same([six.header("RateLimit-Limit"), six.header("RateLimit-Remaining")], ["2", String(left)], "draft-6");
        check(Number(six.header("RateLimit-Reset")) > 0, `draft-6 reset: ${six.header("RateLimit-Reset")}`);
        if (six.status === 429)
          same(six.header("RateLimit-Reset"), six.header("Retry-After"), "the instant of a denial");
        const legacy = await ask("/legacy");
        same(
          [legacy.header("X-RateLimit-Limit"), legacy.header("X-RateLimit-Remaining")],
          ["2", String(left)],
          "legacy",
        );
        const inSeconds = Number(legacy.header("X-RateLimit-Reset")) - wallClockMs() / 1000;
        check(inSeconds > 0 && inSeconds <= 24 * HOUR_S + 1, `X-RateLimit-Reset in ${inSeconds} s`);
        check(legacy.header("RateLimit")?.startsWith(`"old";r=${left}`) === true, "draft-8 beside legacy");
      }
      for (const status of [200, 429]) {
        const answer = await ask("/bare");
        same(answer.status, status, "without fields");
        tellsNothing(answer, "without fields");
      }
    },
  },
  {
    title: "tells of every policy of a combination, and takes all or none",
    routes: {
      combined: () => ({
        guards: [{ policies: [slow(3, "small"), { capacity: 5, tokensPerSecond: "1/h", name: "large" }] }],
      }),
    },
    async drive({ ask }) {
      const first = await ask("/combined");
      same(first.header("RateLimit-Policy"), '"small";q=3;w=86400, "large";q=5;w=18000', "RateLimit-Policy");
      const fields = first.header("RateLimit") ?? "";
      check(/^"small";r=2;t=\d+, "large";r=4;t=\d+$/.test(fields), `RateLimit: ${fields}`);
      await ask("/combined");
      await ask("/combined");
      const denied = await ask("/combined");
      same([denied.status, denied.json()["violated-policies"]], [429, ["small"]], "the fourth");
      const left = denied.header("RateLimit") ?? "";
      check(/^"small";r=0;t=\d+, "large";r=2;t=\d+$/.test(left), `a denial takes nothing: ${left}`);
    },
  },
  {
    title: "adds to what other limiters of the same response tell",
    routes: {
      stacked: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(9, "outer")) }, { limiter: limiter(slow(1, "inner")) }],
      }),
      stackedOld: ({ limiter }) => ({
        guards: [
          { limiter: limiter(slow(9, "outer-old")), headers: ["draft-6", "draft-7", "legacy"] },
          { limiter: limiter(slow(3, "inner-old")), headers: ["draft-6", "draft-7", "legacy"] },
        ],
      }),
    },
    async drive({ ask }) {
      for (const status of [200, 429]) {
        const answer = await ask("/stacked");
        same(answer.status, status, "two limiters");
        for (const name of ["RateLimit", "RateLimit-Policy"]) {
          const names = (answer.header(name) ?? "").split(", ").map((item) => item.split(";")[0]);
          same(names.sort(), ['"inner"', '"outer"'], `${name} of ${status}`);
        }
      }
      const old = await ask("/stackedOld");
      same([old.header("RateLimit-Limit"), old.header("RateLimit-Remaining")], ["3", "2"], "draft-6, the tighter");
      same([old.header("X-RateLimit-Limit"), old.header("X-RateLimit-Remaining")], ["3", "2"], "legacy, the tighter");
      check(
        old.header("RateLimit")?.startsWith("limit=3, remaining=2, ") === true,
        `draft-7: ${old.header("RateLimit")}`,
      );
    },
  },
  {
    title: "lets the application write the body of a denial, and keeps its head",
    routes: {
      customStatus: ({ limiter, kit }) => ({
        guards: [
          {
            limiter: limiter(slow(1, "custom-status")),
            cost: (...call) => (kit.header(call, "x-status") ? 2 : 1),
            onLimited: ({ call }) => kit.answerWith(call, "limited", Number(kit.header(call, "x-status"))),
          },
        ],
      }),
      custom: ({ limiter, kit }) => ({
        guards: [
          {
            limiter: limiter(slow(1, "custom")),
            onLimited: ({ call, key }) => kit.answerWith(call, `slow down, ${key}`),
          },
        ],
      }),
    },
    async drive({ ask, as }) {
      const headers = as("203.0.113.30");
      same((await ask("/custom", { headers })).status, 200, "the first");
      const denied = await ask("/custom", { headers });
      same([denied.status, denied.text], [429, "slow down, ip:203.0.113.30"], "the second");
      check(Number(denied.header("Retry-After")) >= 1, `Retry-After: ${denied.header("Retry-After")}`);
      same(
        [denied.header("Cache-Control"), denied.header("RateLimit-Policy")],
        ["no-store", '"custom";q=1;w=86400'],
        "head",
      );
      // A status of an error is kept, and others are not: a client must not take a denial for success (issue 13).
      for (const [given, sent] of [
        [503, 503],
        [420, 420],
        [400, 400],
        [200, 429],
        [302, 429],
      ] as const) {
        const { status, text, header } = await ask("/customStatus", { headers: { "X-Status": String(given) } });
        same([status, text, header("Cache-Control")], [sent, "limited", "no-store"], `onLimited sets ${given}`);
      }
    },
  },
  {
    title: "shows its fields to scripts of other origins, beside those of the application",
    routes: {
      cors: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "cors")) }],
        before: {
          "Access-Control-Allow-Origin": "https://elsewhere.example",
          "Access-Control-Expose-Headers": "X-Own",
        },
      }),
    },
    async drive({ ask }) {
      for (const status of [200, 429]) {
        const answer = await ask("/cors");
        same(
          [answer.status, answer.header("Access-Control-Allow-Origin")],
          [status, "https://elsewhere.example"],
          "CORS",
        );
        const exposed = (answer.header("Access-Control-Expose-Headers") ?? "").split(", ");
        same(exposed.sort(), ["RateLimit", "RateLimit-Policy", "Retry-After", "X-Own"], `what is exposed on ${status}`);
      }
    },
  },
  {
    title: "does not tell one client's figures where others would read them",
    routes: {
      withheld: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(99, "withheld")) }],
        handle: (path) => WITHHELD[path.split("/")[2] ?? ""] ?? (path.endsWith("/private") ? PRIVATE : {}),
      }),
      lastRedirect: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "last")) }],
        handle: () => ({ status: 302, headers: { Location: "/seen" } }),
      }),
      denialNotCached: ({ limiter }) => ({
        guards: [{ limiter: limiter(slow(1, "not-cached")) }],
        before: { "Cache-Control": "public, max-age=60", ETag: '"one"', Expires: "Thu, 01 Jan 2099 00:00:00 GMT" },
      }),
    },
    async drive({ ask }) {
      for (const [name, { status = 200 }] of Object.entries(WITHHELD)) {
        const answer = await ask(`/withheld/${name}`);
        same(answer.status, status, name);
        tellsNothing(answer, name);
      }
      check((await ask("/withheld/plain")).header("RateLimit") !== null, "others are told");
      check((await ask("/withheld/private")).header("RateLimit") !== null, "private ones are told");
      const redirect = await ask("/lastRedirect");
      same(redirect.status, 302, "a redirect");
      tellsNothing(redirect, "a redirect with nothing left");
      await ask("/denialNotCached");
      const denied = await ask("/denialNotCached");
      same([denied.status, denied.header("Cache-Control")], [429, "no-store"], "a denial");
      same([denied.header("ETag"), denied.header("Expires")], [null, null], "what belongs to the other answer");
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
