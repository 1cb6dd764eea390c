/** Rules in TypeScript, type-checked only: a misspelt plan, budget, preset, member or fact does not compile. */

import { rateLimit as limitFetch } from "sluice/fetch";
import { defineRules } from "sluice/rules";
import type { FactFunctions } from "../../src/middleware/gate/options.ts";
import type { RuleSet } from "../../src/rules/rule-set-types.ts";
import type { RulesData } from "../../src/rules/rules-data.ts";
import type { CheckedRules, FactsOf } from "../../src/rules/rules-types.ts";
import { saasRules } from "./saas-rules.ts";

/** Stands for `defineRules`, which has this signature. */
declare function define<const D extends RulesData>(data: D & CheckedRules<D>): { readonly facts: FactsOf<D> };
declare function provide<F extends string>(rules: { readonly facts: F }, facts: FactFunctions<F, [url: string]>): void;

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const isTrue = <T extends true>(): T | undefined => undefined;

const saas = define(saasRules);
isTrue<Same<(typeof saas)["facts"], "tenant" | "plan" | "account" | "items" | "tokens">>();
const facts = {
  tenant: () => "acme",
  plan: async () => "free",
  account: (url: string) => url,
  items: () => 1,
  tokens: () => undefined,
};
provide(saas, facts);
provide(saas, { ...facts, user: () => "42", apiKey: () => undefined });
// @ts-expect-error a fact is missing
provide(saas, { tenant: () => "acme", plan: () => "free", account: () => "a", items: () => 1 });
// @ts-expect-error a misspelt fact
provide(saas, { ...facts, tenants: () => "acme" });
// @ts-expect-error a fact is text or a number
provide(saas, { ...facts, user: () => true });

const small = define({
  plans: ["free", "pro"],
  defaultPlan: "free",
  budgets: { api: { "tenant+region": { free: "60/m", pro: "600/m" } }, ip: { ip: ["5/s", "10/m of items"] } },
  defaults: { budgets: ["api"] },
  rules: [
    {
      name: "a",
      match: "/a",
      when: { bot: "likely" },
      limits: { client: ["5/s", { free: "1/h", pro: "9/h of tokens" }] },
    },
    { name: "b", match: ["/b", "/c/*"], preset: "login", budgets: [], action: { account: "flag" } },
    { name: "h", match: "GET /healthz", unlimited: true },
  ],
  fallback: { limits: { ip: "5 concurrent lease 30s", user: "10/s queue 5" } },
  overrides: { "ip:1": { ip: "unlimited" } },
});
isTrue<Same<(typeof small)["facts"], "tenant" | "region" | "plan" | "items" | "tokens" | "account">>();

const none = define({ rules: [{ name: "a", match: "/a", preset: "mfa" }], fallback: "unlimited" });
isTrue<Same<(typeof none)["facts"], never>>();
provide(none, {});
provide(none, { user: () => "42" });

declare const loaded: RulesData;
isTrue<Same<FactsOf<typeof loaded>, string>>();

const plans = { plans: ["free", "pro"], defaultPlan: "free" } as const;
const budgets = { budgets: { api: { ip: "1/s" }, daily: { ip: "1/d" } } } as const;
const fallback = "unlimited";

define({
  ...plans,
  rules: [
    {
      name: "a",
      match: "/a",
      // @ts-expect-error a misspelt plan
      limits: { client: "1/s", tenant: { free: "1/s", pto: "2/s" } },
    },
  ],
  fallback,
});
define({
  ...plans,
  rules: [
    {
      name: "a",
      match: "/a",
      limits: {
        // @ts-expect-error a missing plan
        tenant: { free: "1/s" },
      },
    },
  ],
  fallback,
});
define({
  ...plans,
  rules: [
    {
      name: "a",
      match: "/a",
      limits: {
        client: [
          "1/s",
          // @ts-expect-error a missing plan in a list
          { pro: "1/s" },
        ],
      },
    },
  ],
  fallback,
});
define({
  ...plans,
  budgets: {
    api: {
      tenant: {
        free: "1/s",
        pro: "2/s",
        // @ts-expect-error an unknown plan in a budget
        team: "3/s",
      },
    },
  },
  rules: [],
  fallback,
});
define({
  plans: ["free", "pro"],
  // @ts-expect-error a default plan that is not listed
  defaultPlan: "fre",
  rules: [],
  fallback,
});
define({
  rules: [
    {
      name: "a",
      match: "/a",
      limits: {
        // @ts-expect-error there are no plans
        client: { free: "1/s" },
      },
    },
  ],
  fallback,
});
define({
  ...budgets,
  rules: [
    {
      name: "a",
      match: "/a",
      preset: "search",
      budgets: [
        "api",
        // @ts-expect-error an unknown budget
        "dayly",
      ],
    },
  ],
  fallback,
});
define({
  ...budgets,
  defaults: {
    budgets: [
      // @ts-expect-error an unknown budget in defaults
      "dayly",
    ],
  },
  rules: [],
  fallback,
});
define({
  rules: [],
  fallback: {
    limits: { ip: "1/s" },
    budgets: [
      // @ts-expect-error there are no budgets
      "api",
    ],
  },
});
define({
  rules: [
    {
      name: "a",
      match: "/a",
      // @ts-expect-error an unknown preset
      preset: "logn",
    },
  ],
  fallback,
});
define({
  rules: [
    {
      name: "a",
      match: "/a",
      // @ts-expect-error a misspelt member
      limit: { ip: "1/s" },
    },
  ],
  fallback,
});
define({
  rules: [],
  fallback: {
    limits: { ip: "1/s" },
    // @ts-expect-error the fallback has no condition
    when: { bot: "likely" },
  },
});
define({
  rules: [],
  fallback,
  // @ts-expect-error a misspelt member of the file
  caseSensitiv: true,
});
define({
  rules: [],
  fallback: {
    limits: {
      // @ts-expect-error not a limit
      ip: "60 per minute",
    },
  },
});
// @ts-expect-error the fallback is missing
define({ rules: [] });

/** Values that may be undefined are accepted with exactOptionalPropertyTypes, and users wherever facts are. */
declare const set: RuleSet<"tenant" | "tokens">;
declare const unknown: string | undefined;
set.consume({ method: "GET", path: "/a", ip: unknown, facts: { tenant: unknown, user: unknown } });
set.find("GET", "/a", { tenant: unknown, user: "42" });
set.explain("GET", "/a", { tenant: unknown, apiKey: "acme" });
// @ts-expect-error a misspelt fact
set.find("GET", "/a", { tenants: "acme" });
set.hold({ method: "GET", path: "/a" }).then((decision) => {
  if (decision.allowed) decision.hold.settle({ tokens: 812 });
});

/** `rateLimit` requires a function for each fact of the rules. */
export function middlewareOf(): void {
  const typed = defineRules({
    rules: [{ name: "r", match: "/*", limits: { ip: "9/h", tenant: "1/h" } }],
    fallback: { limits: { ip: "1/h" } },
  });
  limitFetch({ rules: typed, facts: { tenant: (request) => request.headers.get("x-tenant") ?? undefined } });
  // @ts-expect-error: facts is missing
  limitFetch({ rules: typed });
  // @ts-expect-error: a function for tenant is missing
  limitFetch({ rules: typed, facts: { tennant: () => "acme" } });
  limitFetch({ policy: "5/m" });
  const plain = defineRules({ rules: [], fallback: { limits: { ip: "1/h" } } });
  limitFetch({ rules: plain });
}

// A bot may be reported by a signal, and a clearance is verified.
const bots = define({
  rules: [
    {
      name: "a",
      match: "/a",
      when: { bot: "likely" },
      limits: { ip: "1/s" },
      action: "challenge",
      withClearance: { clearance: "9/m" },
    },
  ],
  fallback: "unlimited",
});
isTrue<Same<(typeof bots)["facts"], never>>();
provide(bots, {});
