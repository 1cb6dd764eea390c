/** Cases about several limits on one request, and about reading the decision of a request. */
import { check, checkEqual } from "../check.ts";
import { type MiddlewareCase, slow } from "./case.ts";
import { expectNoFields } from "./client.ts";

export const limitsCases: readonly MiddlewareCase[] = [
  {
    title: "charges several limits all or nothing, and names the one that denied",
    routes: {
      limits: ({ limiter, kit }) => ({
        rateLimits: [
          {
            limits: [
              { limiter: limiter(slow(5, "by-address")) },
              {
                limiter: limiter(slow(4, "by-account")),
                key: (...args) => `account:${kit.header(args, "x-account")}`,
                cost: 2,
              },
            ],
          },
        ],
      }),
    },
    async drive({ send, as, seen }) {
      const login = (account: string) => send("/limits", { headers: { ...as("203.0.113.60"), "X-Account": account } });
      const remaining = (field: string | null) => /^"by-address";r=(\d+).*, "by-account";r=(\d+)/.exec(field ?? "");
      const first = await login("ada");
      checkEqual(
        first.header("RateLimit-Policy"),
        '"by-address";q=5;w=86400, "by-account";q=4;w=86400',
        "RateLimit-Policy of both limits",
      );
      checkEqual(remaining(first.header("RateLimit"))?.slice(1), ["4", "2"], "the first login");
      checkEqual((await login("ada")).status, 200, "the second login");
      for (let i = 0; i < 3; i++) {
        const denied = await login("ada");
        checkEqual(
          [denied.status, denied.json()["violated-policies"]],
          [429, ["by-account"]],
          "over the account's limit",
        );
        checkEqual(remaining(denied.header("RateLimit"))?.slice(1), ["3", "0"], "a denial charges neither limit");
        checkEqual(denied.json().detail, "Limit of 4 requests per 86400 s reached.", "detail");
      }
      checkEqual((await login("bob")).status, 200, "another account");
      checkEqual((await login("bob")).status, 200, "another account");
      checkEqual((await login("cleo")).status, 200, "a third account");
      const denied = await login("dora");
      checkEqual(
        [denied.status, denied.json()["violated-policies"]],
        [429, ["by-address"]],
        "over the address's limit",
      );
      checkEqual(remaining(denied.header("RateLimit"))?.slice(1), ["0", "4"], "the account is not charged");
      const { decisions, handled } = await seen("limits");
      checkEqual(handled, 5, "how often the handler was called");
      const keys = decisions.filter(({ allowed }) => !allowed).map(({ key }) => key);
      checkEqual(
        keys,
        ["account:ada", "account:ada", "account:ada", "ip:203.0.113.60"],
        "the keys of the limiting charges",
      );
    },
  },
  {
    title: "refunds every limit of a request",
    routes: {
      limitsRefunded: ({ limiter }) => ({
        rateLimits: [
          {
            limits: [
              { limiter: limiter(slow(9, "outer-refund")) },
              { limiter: limiter(slow(2, "inner-refund")), key: () => "everyone", cost: 2 },
            ],
            refundIf: "failed",
          },
        ],
        handle: (path) => ({ status: Number(path.split("/")[2]) }),
      }),
    },
    async drive({ send, statuses }) {
      checkEqual((await send("/limitsRefunded/500")).status, 500, "a failed request");
      checkEqual((await send("/limitsRefunded/404")).status, 404, "another one");
      const { status, header } = await send("/limitsRefunded/200");
      checkEqual(status, 200, "both limits were refunded");
      check(/^"outer-refund";r=8.*, "inner-refund";r=0/.test(header("RateLimit") ?? ""), `${header("RateLimit")}`);
      checkEqual(await statuses(1, "/limitsRefunded/200"), [429], "a successful request is charged");
    },
  },
  {
    title: "leaves out a limit whose limiter function returns undefined",
    routes: {
      limitsByPlan: ({ limiter, kit }) => {
        const limiters: Record<string, ReturnType<typeof limiter>> = {
          daily: limiter(slow(1, "daily")),
          burst: limiter(slow(3, "burst-of-plan")),
        };
        const chosen = (args: readonly unknown[], name: string) =>
          kit.header(args, "x-limits")?.includes(name) ? limiters[name] : undefined;
        return {
          rateLimits: [
            {
              limits: [
                { limiter: (...args) => chosen(args, "daily") },
                { limiter: async (...args) => chosen(args, "burst") },
              ],
            },
          ],
        };
      },
    },
    async drive({ send, statuses, seen }) {
      const withLimits = (names: string) => ({ headers: { "X-Limits": names } });
      for (let i = 0; i < 3; i++) {
        const uncounted = await send("/limitsByPlan", withLimits("none"));
        checkEqual(uncounted.status, 200, "no limit applies");
        expectNoFields(uncounted, "no limit applies");
      }
      checkEqual((await seen("limitsByPlan")).decisions, [], "decisions if no limit applies");
      const both = await send("/limitsByPlan", withLimits("daily burst"));
      checkEqual(both.header("RateLimit-Policy"), '"daily";q=1;w=86400, "burst-of-plan";q=3;w=86400', "both limits");
      const one = await send("/limitsByPlan", withLimits("burst"));
      checkEqual([one.status, one.header("RateLimit-Policy")], [200, '"burst-of-plan";q=3;w=86400'], "one limit");
      checkEqual(await statuses(1, "/limitsByPlan", withLimits("daily burst")), [429], "the other limit is exhausted");
      checkEqual(await statuses(2, "/limitsByPlan", withLimits("burst")), [200, 429], "a denial charged nothing");
    },
  },
  {
    title: "returns the decision of the last middleware that a request passed from getRateLimit",
    routes: {
      decisions: ({ limiter, kit }) => ({
        rateLimits: [
          { limiter: limiter(slow(9, "outer-decision")) },
          {
            limiter: limiter(slow(3, "inner-decision")),
            skip: (...args) => kit.header(args, "x-skip") === "inner",
          },
        ],
        handle: (_path, _disconnected, decision) => ({ body: `${decision?.policy} ${decision?.remaining}` }),
      }),
      decisionSkipped: ({ limiter }) => ({
        rateLimits: [{ limiter: limiter(slow(1, "never-charged")), skip: () => true }],
        handle: (_path, _disconnected, decision) => ({ body: String(decision) }),
      }),
    },
    async drive({ send }) {
      checkEqual((await send("/decisions")).text, "inner-decision 2", "the first request");
      checkEqual((await send("/decisions")).text, "inner-decision 1", "the second request");
      checkEqual(
        (await send("/decisions", { headers: { "X-Skip": "inner" } })).text,
        "outer-decision 6",
        "inner one skipped",
      );
      checkEqual((await send("/decisionSkipped")).text, "undefined", "a request that is not counted");
    },
  },
];
