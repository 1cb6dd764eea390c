/** Cases about rules: which one applies to a request, what it is charged, and how the response names it. */
import { loadRules } from "../../rules/define-rules.ts";
import type { RulesData } from "../../rules/rules-data.ts";
import { checkEqual } from "../check.ts";
import type { MiddlewareCase } from "./case.ts";
import { expectNoFields } from "./client.ts";
import type { Planner, RouteOptions } from "./guarded-route.ts";

const FALLBACK = { limits: { ip: "100/d" } } as const;

/** The options of a route with rules. Facts are request headers. */
function withRules({ kit }: Planner, data: Omit<RulesData, "fallback">, facts: readonly string[] = []): RouteOptions {
  const functions = facts.map((name) => {
    const fact = (...args: readonly unknown[]): string | number | undefined => {
      const value = kit.header(args, `x-${name}`);
      return value !== undefined && /^\d+$/.test(value) ? Number(value) : value;
    };
    return [name, fact];
  });
  const rules = loadRules({ fallback: FALLBACK, ...data }, { facts });
  return { rules, facts: Object.fromEntries(functions) };
}

export const rulesCases: readonly MiddlewareCase[] = [
  {
    title: "charges the rule of the path, and names it",
    routes: {
      rules: (planner) => ({
        rateLimits: [
          withRules(planner, {
            rules: [
              { name: "health", match: "GET /rules/healthz", unlimited: true },
              { name: "login", match: "POST /rules/login", limits: { ip: "1/d" } },
              { name: "items", match: "/rules/items/:id", limits: { ip: "2/d" } },
            ],
          }),
        ],
      }),
    },
    async drive({ send, as, statuses, seen }) {
      const headers = as("203.0.113.80");
      const login = { method: "POST", headers };
      const allowed = await send("/rules/login?next=/", login);
      checkEqual([allowed.status, allowed.header("RateLimit-Policy")], [200, '"login.ip";q=1;w=86400'], "a login");
      const denied = await send("/rules/login", login);
      const { status, rule, "violated-policies": violated } = denied.json();
      checkEqual([denied.status, status, rule, violated], [429, 429, "login", ["login.ip"]], "a second login");
      checkEqual(await statuses(3, "/rules/items/7", { headers }), [200, 200, 429], "another rule");
      const other = await send("/rules/login", { headers });
      checkEqual(other.header("RateLimit-Policy"), '"fallback.ip";q=100;w=86400', "another method");
      const health = await send("/rules/healthz", { headers });
      checkEqual(health.status, 200, "an unlimited rule");
      expectNoFields(health, "an unlimited rule");
      const { decisions } = await seen("rules");
      const first = decisions.slice(0, 2).map(({ allowed, rule, key }) => [allowed, rule, key]);
      const key = "ip:203.0.113.80";
      checkEqual(
        first,
        [
          [true, "login", key],
          [false, "login", key],
        ],
        "decisions",
      );
    },
  },
  {
    title: "charges the rule of a path whatever its spelling",
    routes: {
      "rules-spelling": (planner) => ({
        rateLimits: [
          withRules(planner, {
            rules: [{ name: "login", match: "/rules-spelling/login", limits: { ip: "3/d" } }],
          }),
        ],
      }),
    },
    async drive({ send, as, statuses, seen }) {
      const headers = as("203.0.113.81");
      checkEqual(await statuses(3, "/rules-spelling/login", { headers }), [200, 200, 200], "three logins");
      const spellings = ["login", "LOGIN", "login/", "%6cogin", "x/../login", "Login//", "%4Cogin?x", "./login"];
      const passed: string[] = [];
      for (const path of spellings) {
        // Some servers redirect to another spelling.
        if ((await send(`/rules-spelling/${path}`, { headers })).status < 300) passed.push(path);
      }
      checkEqual(passed, [], "spellings that pass");
      checkEqual((await seen("rules-spelling")).handled, 3, "how often the handler was called");
    },
  },
  {
    title: "charges the budgets of the caller's plan by weight, in one decision",
    routes: {
      "rules-plans": (planner) => ({
        rateLimits: [
          withRules(
            planner,
            {
              plans: ["free", "pro"],
              defaultPlan: "free",
              budgets: { api: { tenant: { free: "10/d", pro: "100/d" } } },
              rules: [
                { name: "report", match: "/rules-plans", limits: { client: "50/d" }, budgets: ["api"], weight: 4 },
              ],
              overrides: { "tenant:acme": { api: "9/d" } },
            },
            ["tenant", "plan"],
          ),
        ],
      }),
    },
    async drive({ send, as }) {
      const report = (tenant: string, plan?: string) =>
        send("/rules-plans", {
          headers: { ...as("203.0.113.82"), "X-Tenant": tenant, ...(plan ? { "X-Plan": plan } : {}) },
        });
      const pro = await report("globex", "pro");
      checkEqual(pro.header("RateLimit-Policy"), '"report.client";q=50;w=86400, "api@pro";q=100;w=86400', "pro");
      const free = [await report("globex"), await report("globex", "free"), await report("globex", "gold")];
      checkEqual(
        free.map(({ status }) => status),
        [200, 200, 429],
        "free",
      );
      checkEqual(free[2]?.json()["violated-policies"], ["api@free"], "the limiting policy");
      const acme = [await report("acme", "pro"), await report("acme", "pro"), await report("acme", "pro")];
      checkEqual(
        acme.map(({ status }) => status),
        [200, 200, 429],
        "with an override",
      );
      checkEqual(acme[2]?.json()["violated-policies"], ["api@override"], "the override");
      // Four reports were allowed to one client before, and none of the denied ones was charged.
      const remaining = /"report.client";r=(\d+)/.exec((await report("other", "pro")).header("RateLimit") ?? "")?.[1];
      checkEqual(remaining, "44", "own limits count requests, and a denial charges nothing");
    },
  },
  {
    title: "lets requests pass that only a flagged limit or a shadow rule denies",
    routes: {
      "rules-flag": (planner) => ({
        rateLimits: [
          withRules(
            planner,
            {
              rules: [
                {
                  name: "reset",
                  match: "/rules-flag/reset",
                  limits: { ip: "10/d", account: "1/d" },
                  action: { account: "flag" },
                },
                { name: "trial", match: "/rules-flag/trial", limits: { ip: "1/d" }, mode: "shadow" },
              ],
            },
            ["account"],
          ),
        ],
        handle: (_path, _disconnected, decision) => ({ body: JSON.stringify([decision?.rule, decision?.limited]) }),
      }),
    },
    async drive({ send, as, seen }) {
      const headers = { ...as("203.0.113.83"), "X-Account": "ada" };
      const reset = [await send("/rules-flag/reset", { headers }), await send("/rules-flag/reset", { headers })];
      checkEqual(
        reset.map(({ text }) => text),
        ['["reset",null]', '["reset",true]'],
        "the handler reads the flag",
      );
      const trial = [await send("/rules-flag/trial", { headers }), await send("/rules-flag/trial", { headers })];
      checkEqual(
        trial.map(({ status }) => status),
        [200, 200],
        "a shadow rule",
      );
      expectNoFields(trial[1] as NonNullable<(typeof trial)[1]>, "a shadow rule");
      const { decisions } = await seen("rules-flag");
      const counted = decisions.filter(({ mode }) => mode).map(({ mode, rule, allowed }) => [mode, rule, allowed]);
      checkEqual(
        counted,
        [
          ["flag", "reset", true],
          ["flag", "reset", false],
          ["shadow", "trial", true],
          ["shadow", "trial", false],
        ],
        "what would have been denied",
      );
    },
  },
  {
    title: "refunds the charges of a rule as it says",
    routes: {
      "rules-refund": (planner) => ({
        rateLimits: [
          withRules(planner, {
            rules: [{ name: "login", match: "/rules-refund/*", limits: { ip: "2/d" }, refundIf: "succeeded" }],
          }),
        ],
        handle: (path) => ({ status: path.includes("wrong") ? 401 : 200 }),
      }),
    },
    async drive({ send, as, statuses }) {
      const headers = as("203.0.113.84");
      for (let i = 0; i < 20; i++) {
        // A refund is made just after the response.
        let { status } = await send("/rules-refund/right", { headers });
        for (let tries = 0; status === 429 && tries < 200; tries++) {
          await new Promise((resolve) => setTimeout(resolve, 10));
          ({ status } = await send("/rules-refund/right", { headers }));
        }
        checkEqual(status, 200, "a request whose charge is refunded");
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
      checkEqual(await statuses(3, "/rules-refund/wrong", { headers }), [401, 401, 429], "requests that are charged");
    },
  },
  {
    title: "holds the amount of a fact, and charges what the handler reports",
    routes: {
      "rules-hold": (planner) => ({
        rateLimits: [
          withRules(
            planner,
            {
              rules: [
                {
                  name: "ai",
                  match: "/rules-hold/*",
                  limits: { ip: "1000/d", tenant: "1000/d fixed of tokens" },
                  hold: "5m",
                },
              ],
            },
            ["tenant", "tokens"],
          ),
        ],
        handle(path, _disconnected, decision) {
          const [actual] = /\d+$/.exec(path) ?? [];
          if (actual !== undefined) decision?.settle?.({ tokens: Number(actual) });
          return {};
        },
      }),
    },
    async drive({ send, as }) {
      const chat = (tokens: number, actual = "estimated") =>
        send(`/rules-hold/${actual}`, {
          headers: { ...as("203.0.113.85"), "X-Tenant": "acme", "X-Tokens": String(tokens) },
        });
      const first = await chat(800, "100");
      checkEqual(
        first.header("RateLimit-Policy"),
        '"ai.ip";q=1000;w=86400, "ai.tenant";q=1000;qu="tokens";w=86400',
        "the unit of the policy",
      );
      // The amount is settled just after the response. An estimate of 0 holds 1 meanwhile.
      let remaining: string | undefined;
      for (let tries = 0; tries < 200 && remaining !== "899"; tries++) {
        await new Promise((resolve) => setTimeout(resolve, 10));
        remaining = /"ai.tenant";r=(\d+)/.exec((await chat(0)).header("RateLimit") ?? "")?.[1];
      }
      checkEqual(remaining, "899", "what remains after 100 tokens");
      const denied = await chat(901);
      checkEqual([denied.status, denied.json().detail], [429, "Limit of 1000 tokens per 86400 s reached."], "denied");
    },
  },
];
