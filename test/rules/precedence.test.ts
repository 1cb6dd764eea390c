/** Which setting applies where rules have several: of plans, overrides, weights and rules that share a budget. */
import type { Decision } from "sluice";
import { loadRules, type RulesOptions } from "sluice/rules";
import { describe, expect, test } from "vitest";
import { flakyStore } from "../flaky-store.ts";

const IP = "203.0.113.7";
const FALLBACK = { limits: { ip: "1000/h" } };

function setOf(data: object, options: RulesOptions = {}) {
  const rules = loadRules({ fallback: FALLBACK, ...data }, { facts: ["tenant", "plan", "tokens"], ...options });
  const request = (path: string, facts = {}) => ({ method: "GET", path, ip: IP, facts: { tenant: "acme", ...facts } });
  return {
    rules,
    take: (path: string, facts = {}) => rules.consume(request(path, facts)),
    hold: (path: string, facts = {}) => rules.hold(request(path, facts)),
  };
}

/** What remains by policy. */
function remainingOf(decision: Decision): Record<string, number> {
  return Object.fromEntries((decision.parts ?? [decision]).map(({ policy, remaining }) => [policy, remaining]));
}

describe("plans", () => {
  test("that are unknown or missing are defaultPlan, not the first one", async () => {
    const { take } = setOf({
      plans: ["internal", "free"],
      defaultPlan: "free",
      rules: [{ name: "read", match: "/read", limits: { ip: { internal: "1000/h", free: "2/h" } } }],
    });
    const decisions = [await take("/read", { plan: "gold" }), await take("/read"), await take("/read", { plan: "x" })];
    expect(decisions.map(({ policy, allowed }) => [policy, allowed])).toEqual([
      ["read.ip@free", true],
      ["read.ip@free", true],
      ["read.ip@free", false],
    ]);
  });
});

describe("overrides", () => {
  const budgets = { api: { tenant: "2/h" } };
  const overrides = { "tenant:acme": { api: "5/h" } };

  test("in the rules are preferred to those of the function", async () => {
    const { take } = setOf(
      {
        budgets,
        overrides,
        rules: [{ name: "read", match: "/read", limits: { ip: "100/h" }, budgets: ["api"] }],
      },
      { overrides: (limit) => (limit === "api" ? "9/h" : undefined) },
    );
    expect(remainingOf(await take("/read"))).toMatchObject({ "api@override": 4 });
    expect(remainingOf(await take("/read", { tenant: "other" }))).toMatchObject({ "api@override": 8 });
  });

  test("of a shared budget fail as the rule of the request says", async () => {
    const store = flakyStore();
    const rule = (onStoreError: string) => ({
      name: onStoreError,
      match: `/${onStoreError}`,
      limits: { ip: "100/h" },
      budgets: ["api"],
      onStoreError,
    });
    const { take } = setOf({ budgets, overrides, rules: [rule("closed"), rule("open")] }, { store });
    expect([(await take("/closed")).allowed, (await take("/open")).allowed]).toEqual([true, true]);
    store.mode = "fail";
    expect(await take("/open")).toMatchObject({ allowed: true, degraded: true });
    expect(await take("/closed")).toMatchObject({ allowed: false, unavailable: true });
  });
});

describe("the weight of a rule", () => {
  test("is not that of its leases", async () => {
    const { hold } = setOf({
      budgets: { slots: { tenant: "5 concurrent" }, api: { tenant: "20/h" } },
      rules: [{ name: "slow", match: "/slow", limits: { ip: "100/h" }, budgets: ["slots", "api"], weight: 4 }],
    });
    await hold("/slow");
    const second = await hold("/slow");
    expect(remainingOf(second)).toEqual({ "slow.ip": 98, slots: 3, api: 12 });
  });
});

describe("perPattern", () => {
  test("gives patterns own buckets of own limits, but not of shared budgets", async () => {
    const { take } = setOf({
      budgets: { api: { tenant: "20/h" } },
      rules: [
        { name: "list", match: ["/users", "/teams"], limits: { ip: "100/h" }, budgets: ["api"], perPattern: true },
      ],
    });
    expect(remainingOf(await take("/users"))).toEqual({ "list.ip": 99, api: 19 });
    expect(remainingOf(await take("/teams"))).toEqual({ "list.ip": 99, api: 18 });
  });
});
