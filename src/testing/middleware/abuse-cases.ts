/** Cases about abuse prevention: lists, traps, blocks, and challenges with their clearance. */
import { abuse } from "../../abuse/abuse.ts";
import { challenge } from "../../abuse/challenge/challenge.ts";
import type { ChallengeProvider } from "../../abuse/challenge/provider.ts";
import { ipList } from "../../abuse/lists/ip-list.ts";
import { loadRules } from "../../rules/define-rules.ts";
import { checkEqual } from "../check.ts";
import { type MiddlewareCase, slow } from "./case.ts";
import { expectNoFields } from "./client.ts";

/** Accepts the token "solved". */
export const PROVIDER: ChallengeProvider = {
  name: "suite",
  siteKey: "site",
  scriptUrl: "https://captcha.example/api.js",
  frameOrigin: "https://captcha.example",
  tokenField: "suite-response",
  verify: async (token) => ({ ok: token === "solved", codes: token === "solved" ? [] : ["invalid-input-response"] }),
};

export const abuseCases: readonly MiddlewareCase[] = [
  {
    title: "rejects clients on a deny list with 403, and does not count those on an allow list",
    routes: {
      lists: () => ({
        rateLimits: [
          {
            policy: slow(1, "lists"),
            abuse: abuse({ deny: [ipList("203.0.113.96/31")], allow: [ipList(["203.0.113.97", "203.0.113.98"])] }),
          },
        ],
      }),
    },
    async drive({ send, as, statuses, seen }) {
      const denied = await send("/lists", { headers: as("203.0.113.96") });
      checkEqual(
        [denied.status, denied.header("Cache-Control"), denied.json().title],
        [403, "no-store", "Forbidden"],
        "a denied client",
      );
      expectNoFields(denied, "a denied client");
      const head = await send("/lists", { method: "HEAD", headers: as("203.0.113.96") });
      checkEqual([head.status, head.text], [403, ""], "HEAD of a denied client");
      checkEqual(await statuses(1, "/lists", { headers: as("203.0.113.97") }), [403], "a client on both lists");
      checkEqual(await statuses(3, "/lists", { headers: as("203.0.113.98") }), [200, 200, 200], "an allowed client");
      checkEqual(await statuses(2, "/lists", { headers: as("203.0.113.99") }), [200, 429], "any other client");
      checkEqual((await seen("lists")).handled, 4, "how often the handler was called");
    },
  },
  {
    title: "responds to a trap with 404 and blocks the client",
    routes: {
      traps: () => ({
        rateLimits: [{ policy: slow(100, "traps"), abuse: abuse({ traps: ["/traps/.env"] }) }],
      }),
    },
    async drive({ send, as, statuses, seen }) {
      const [curl, browser] = [as("203.0.113.100"), as("203.0.113.101")];
      const visitor = { ...browser, "Sec-Fetch-Site": "cross-site" };
      checkEqual(await statuses(1, "/traps/.env", { headers: visitor }), [404], "a visitor of another site");
      checkEqual(await statuses(1, "/traps", { headers: browser }), [200], "the visitor afterwards");
      checkEqual(await statuses(1, "/traps/.env", { headers: curl }), [404], "a scanner");
      const blocked = await send("/traps", { headers: curl });
      checkEqual(
        [blocked.status, blocked.json().title, blocked.header("Retry-After")],
        [429, "Abnormal Usage Detected", "60"],
        "the scanner afterwards",
      );
      checkEqual((await seen("traps")).handled, 1, "how often the handler was called");
    },
  },
  {
    title: "applies deny lists and blocks to preflights, and charges those with credentials (issue 30)",
    routes: {
      listedPreflights: () => ({
        rateLimits: [
          {
            policy: slow(2, "listed-preflights"),
            abuse: abuse({ deny: [ipList("203.0.113.104")], traps: ["/listedPreflights/.env"] }),
          },
        ],
      }),
    },
    async drive({ as, statuses, seen }) {
      const headers = { Origin: "https://elsewhere.example", "Access-Control-Request-Method": "POST" };
      const preflight = (address: string, more: Record<string, string> = {}) => ({
        method: "OPTIONS",
        headers: { ...headers, ...as(address), ...more },
      });
      checkEqual(
        await statuses(3, "/listedPreflights", preflight("203.0.113.104")),
        [403, 403, 403],
        "a client on the deny list",
      );
      const scanner = { headers: as("203.0.113.105") };
      checkEqual(await statuses(1, "/listedPreflights/.env", scanner), [404], "a trap");
      checkEqual(
        await statuses(3, "/listedPreflights", preflight("203.0.113.105")),
        [429, 429, 429],
        "preflights of a blocked client",
      );
      checkEqual((await seen("listedPreflights")).handled, 0, "how often the handler was called");
      checkEqual(
        await statuses(3, "/listedPreflights", preflight("203.0.113.106")),
        [200, 200, 200],
        "preflights of any other client",
      );
      for (const [i, credentials] of [{ Authorization: "Bearer x" }, { Cookie: "session=x" }].entries()) {
        checkEqual(
          await statuses(3, "/listedPreflights", preflight(`203.0.113.${107 + i}`, credentials)),
          [200, 200, 429],
          `no browser sends a preflight with ${Object.keys(credentials)}`,
        );
      }
    },
  },
  {
    title: "challenges clients over a limit, and accepts a solution for a second budget",
    routes: {
      challenged: () => ({
        before: { "Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "X-Request-Id" },
        rateLimits: [
          {
            rules: loadRules(
              {
                rules: [{ name: "login", match: "/challenged", limits: { ip: "1/d" }, action: "challenge" }],
                fallback: { limits: { ip: "100/d" } },
              },
              { facts: [] },
            ),
            abuse: abuse({
              challenge: challenge({
                provider: PROVIDER,
                secret: ["0123456789abcdef0123456789abcdef"],
                path: "/challenged/clearance",
              }),
            }),
          },
        ],
      }),
    },
    async drive({ send, as, statuses, seen }) {
      const headers = { ...as("203.0.113.102"), "User-Agent": "suite" };
      checkEqual(await statuses(1, "/challenged", { headers }), [200], "the first request");
      const challenged = await send("/challenged", { headers });
      const { code, rule } = challenged.json();
      checkEqual(
        [challenged.status, code, rule, challenged.header("Sluice-Mitigated"), challenged.header("Cache-Control")],
        [403, "challenge-required", "login", "challenge", "no-store"],
        "a request over the limit",
      );
      const exposed = challenged.header("Access-Control-Expose-Headers") ?? "";
      // On servers without a response at this point, it has no headers of the application.
      checkEqual(exposed.replace("X-Request-Id, ", ""), "Sluice-Mitigated", "exposed headers");
      expectNoFields(challenged, "a challenge");
      const post = (token: string) =>
        send("/challenged/clearance", {
          method: "POST",
          headers: { ...headers, "Content-Type": "application/json" },
          body: JSON.stringify({ token }),
        });
      checkEqual((await post("guessed")).json().code, "challenge-failed", "a wrong solution");
      const solved = await post("solved");
      checkEqual([solved.status, solved.text, solved.cookies.length], [204, "", 1], "a solution");
      const [cookie = ""] = (solved.cookies[0] ?? "").split(";");
      const cleared = { ...headers, Cookie: cookie };
      checkEqual(await statuses(2, "/challenged", { headers: cleared }), [200, 429], "with a clearance");

      const other = { ...as("203.0.113.103"), "User-Agent": "suite" };
      const statusesOf = [
        ...(await statuses(2, "/challenged", { headers: other })),
        ...(await statuses(1, "/challenged", { headers: { ...other, Cookie: cookie } })),
      ];
      checkEqual(statusesOf, [200, 403, 429], "a second client of the network, which shares the clearance");
      const inline = await send("/challenged", {
        headers: { ...as("198.51.100.102"), "User-Agent": "suite", "Sluice-Challenge-Token": "solved" },
      });
      checkEqual(inline.status, 200, "a token in the request");
      checkEqual(inline.cookies.length, 1, "the cookie of the request");
      checkEqual((await seen("challenged")).handled, 4, "how often the handler was called");
    },
  },
];
