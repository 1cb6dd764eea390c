/** Rule sets without a server: charges, plans, flags, shadow rules and holds. */
import { memoryStore, type Store } from "sluice";
import { loadRules, type RuleSet } from "sluice/rules";
import { fakeClock } from "sluice/testing";
import { describe, expect, test } from "vitest";
import { saasRules } from "./saas-rules.ts";

const IP = "203.0.113.7";

/** A rule set on a clock that moves only when a test advances it. */
function rulesOn(data: object, options: object = {}) {
  const clock = fakeClock();
  const store = memoryStore({ clock });
  const rules = loadRules(data, { store, facts: ["tenant", "plan", "account", "items", "tokens", "bot"], ...options });
  return { clock, store, rules };
}

/** How many of `tries` requests are allowed. */
async function allowedOf(tries: number, rules: RuleSet, path: string, facts = {}, ip = IP): Promise<number> {
  let allowed = 0;
  for (let i = 0; i < tries; i++) {
    if ((await rules.consume({ method: "GET", path, ip, facts })).allowed) allowed++;
  }
  return allowed;
}

const FALLBACK = { limits: { ip: "1000/h fixed" } };

describe("a rule set", () => {
  test("applies the first rule that matches, and names it", async () => {
    const { rules } = rulesOn({
      rules: [
        { name: "one", match: "GET /a/:id", limits: { ip: "1/h" } },
        { name: "two", match: "GET /a/*", limits: { ip: "2/h" } },
      ],
      fallback: FALLBACK,
    });
    expect(await rules.consume({ method: "GET", path: "/a/1", ip: IP })).toMatchObject({
      allowed: true,
      rule: "one",
      policy: "one.ip",
    });
    expect(await allowedOf(3, rules, "/a/1")).toBe(0);
    expect(await allowedOf(3, rules, "/a/1/2")).toBe(2);
    expect((await rules.consume({ method: "GET", path: "/else", ip: IP })).rule).toBe("fallback");
  });

  test("charges own limits by 1 and budgets by weight, all or nothing", async () => {
    const { rules, store } = rulesOn({
      budgets: { api: { tenant: "10/h" } },
      rules: [{ name: "report", match: "POST /reports", limits: { ip: "5/h" }, budgets: ["api"], weight: 4 }],
      fallback: FALLBACK,
    });
    const request = { method: "POST", path: "/reports", ip: IP, facts: { tenant: "acme" } };
    expect((await rules.consume(request)).parts?.map(({ remaining }) => remaining)).toEqual([4, 6]);
    expect((await rules.consume(request)).parts?.map(({ remaining }) => remaining)).toEqual([3, 2]);
    const denied = await rules.consume(request);
    expect(denied).toMatchObject({ allowed: false, policy: "api", rule: "report" });
    expect(denied.parts?.map(({ remaining }) => remaining)).toEqual([3, 2]);
    expect(store.size).toBe(2);
  });

  test("counts a fact, and denies an amount that can never fit", async () => {
    const { rules } = rulesOn({
      rules: [{ name: "bulk", match: "POST /bulk", limits: { ip: ["5/h", "100/h of items"] } }],
      fallback: FALLBACK,
    });
    const bulk = (items?: number) =>
      rules.consume({ method: "POST", path: "/bulk", ip: IP, facts: items === undefined ? {} : { items } });
    expect((await bulk(40)).parts?.map(({ policy, remaining }) => [policy, remaining])).toEqual([
      ["bulk.ip", 4],
      ["bulk.ip.2", 60],
    ]);
    expect(await bulk(101)).toMatchObject({ allowed: false, retryAfterMs: null, policy: "bulk.ip.2" });
    await expect(bulk()).rejects.toMatchObject({ code: "invalid-cost", option: "facts.items" });
    await expect(bulk(1.5)).rejects.toMatchObject({ code: "invalid-cost", option: "facts.items" });
  });

  test("skips a limit whose identity is unknown, and never all of them", async () => {
    const { rules } = rulesOn({
      rules: [{ name: "read", match: "/read", limits: { tenant: "1/h", ip: "3/h" } }],
      fallback: FALLBACK,
    });
    expect(await allowedOf(5, rules, "/read")).toBe(3);
    expect(await allowedOf(5, rules, "/read", { tenant: "acme" }, "203.0.113.8")).toBe(1);
    // An empty text would be one key for all callers without a tenant.
    expect(await allowedOf(5, rules, "/read", { tenant: "" }, "203.0.113.9")).toBe(3);
    const error = { code: "unidentified", message: expect.stringContaining("Pass ip") };
    await expect(rules.consume({ method: "GET", path: "/read", facts: { tenant: "b" } })).rejects.toMatchObject(error);
  });

  test("joins identities without collisions", async () => {
    const { rules } = rulesOn({
      rules: [{ name: "login", match: "/login", limits: { "tenant+account": "1/h", ip: "100/h" } }],
      fallback: FALLBACK,
    });
    const key = (tenant: string, account: string) => ({ tenant, account });
    expect(await allowedOf(2, rules, "/login", key("a", "b+account:c"))).toBe(1);
    expect(await allowedOf(2, rules, "/login", key("a+account:b", "c"))).toBe(1);
    expect(await allowedOf(2, rules, "/login", key("a%2B", "c"))).toBe(1);
    expect(await allowedOf(2, rules, "/login", key("a+", "c"))).toBe(1);
  });

  test("gives each pattern its own buckets with perPattern, and one to all without", async () => {
    const rule = { name: "list", match: ["GET /users", "GET /teams"], limits: { ip: "2/h" } };
    const shared = rulesOn({ rules: [rule], fallback: FALLBACK }).rules;
    expect([await allowedOf(3, shared, "/users"), await allowedOf(3, shared, "/teams")]).toEqual([2, 0]);
    const apart = rulesOn({ rules: [{ ...rule, perPattern: true }], fallback: FALLBACK }).rules;
    expect([await allowedOf(3, apart, "/users"), await allowedOf(3, apart, "/teams")]).toEqual([2, 2]);
  });

  test("chooses a rule by facts, and evaluates each at most once", async () => {
    const { rules } = rulesOn({
      rules: [
        { name: "bots", match: "/*", when: { bot: ["likely", "certain"] }, limits: { ip: "1/h" } },
        { name: "all", match: "/*", limits: { ip: "3/h" } },
      ],
      fallback: FALLBACK,
    });
    expect(rules.find("GET", "/x", { bot: "likely" }).rule).toBe("bots");
    expect(rules.find("GET", "/x", { bot: "no" }).rule).toBe("all");
    expect(rules.find("GET", "/x").rule).toBe("all");
  });

  test("exempts an unlimited rule only for the path as it is written", async () => {
    const { rules } = rulesOn({
      rules: [
        { name: "health", match: "GET /healthz", unlimited: true },
        { name: "static", match: "GET /static/*", unlimited: true },
        { name: "login", match: "/login", limits: { ip: "1/h" } },
      ],
      fallback: { limits: { ip: "2/h" } },
    });
    expect(await rules.consume({ method: "GET", path: "/healthz" })).toMatchObject({ allowed: true, rule: "health" });
    expect(await allowedOf(5, rules, "/static/Logo.PNG")).toBe(5);
    expect(await allowedOf(5, rules, "/HEALTHZ")).toBe(2);
    expect(await allowedOf(5, rules, "/static/../login", {}, "203.0.113.8")).toBe(1);
  });

  test("charges every rule that a router could apply to an unusual path, a shared bucket once", async () => {
    const { rules } = rulesOn({
      budgets: { api: { ip: "100/h" } },
      defaults: { budgets: ["api"] },
      rules: [{ name: "login", match: "/login", limits: { ip: "1/h" }, weight: 7 }],
      fallback: { limits: { ip: "50/h" } },
    });
    const { parts } = await rules.consume({ method: "GET", path: "/LOGIN/", ip: IP });
    const remaining = Object.fromEntries((parts ?? []).map(({ policy, remaining }) => [policy, remaining]));
    expect(remaining).toEqual({ "login.ip": 0, "fallback.ip": 49, api: 93 });
    expect(await rules.consume({ method: "GET", path: "/login", ip: IP })).toMatchObject({ allowed: false });
  });

  test("never denies by a flagged limit or a shadow rule, and keeps enforcing the rest", async () => {
    const { rules } = rulesOn({
      budgets: { api: { ip: "10/h" } },
      rules: [
        { name: "reset", match: "/reset", limits: { ip: "5/h", account: "2/h" }, action: { account: "flag" } },
        { name: "share", match: "/share", limits: { ip: "1/h" }, budgets: ["api"], mode: "shadow" },
      ],
      fallback: FALLBACK,
    });
    const facts = { account: "ada" };
    const resets = [];
    for (let i = 0; i < 6; i++) resets.push(await rules.consume({ method: "GET", path: "/reset", ip: IP, facts }));
    expect(resets.map(({ allowed }) => allowed)).toEqual([true, true, true, true, true, false]);
    expect(resets.map((decision) => "limited" in decision)).toEqual([false, false, true, true, true, true]);
    expect(await allowedOf(12, rules, "/share")).toBe(10);
  });

  test("never fails because of a shadow rule while the store is unavailable", async () => {
    const store: Store = {
      consistency: "exact",
      apply: () => Promise.reject(new Error("on purpose")),
      inspect: () => Promise.reject(new Error("on purpose")),
      async dispose() {},
    };
    const limits = { ip: "1/h" };
    const { rules } = rulesOn(
      {
        rules: [
          { name: "shadow", match: "/shadow", limits, mode: "shadow", onStoreError: "throw" },
          { name: "enforced", match: "/enforced", limits, onStoreError: "throw" },
        ],
        fallback: FALLBACK,
      },
      { store, onEvent: () => {} },
    );
    expect(await allowedOf(3, rules, "/shadow")).toBe(3);
    await expect(allowedOf(1, rules, "/enforced")).rejects.toMatchObject({ code: "store-unavailable" });
  });

  test("reports the policies of a request without charging it", () => {
    const { rules, store } = rulesOn(saasRules);
    expect(rules.find("POST", "/v1/reports", { plan: "pro", tenant: "x" })).toEqual({
      rule: "report",
      policies: [
        { name: "report.client", per: "client", limit: "2/m burst 4", amount: 1 },
        { name: "report.tenant@pro", per: "tenant", limit: "200/d fixed", amount: 1 },
        { name: "address", per: "ip", limit: "50/s burst 300", amount: 20 },
        { name: "api@pro", per: "tenant", limit: "600/m burst 200", amount: 20 },
        { name: "monthly@pro", per: "tenant", limit: "1000000/30d fixed", amount: 20 },
      ],
    });
    expect(store.size).toBe(0);
  });

  test("explains a request", () => {
    const { rules } = rulesOn(saasRules);
    expect(rules.explain("POST", "/v1/reports", { plan: "pro" })).toMatchInlineSnapshot(`
      "POST /v1/reports  ->  rule "report" (rules[8], first match)
        policy              per      limit               charge   shared by
        report.client       client   2/m burst 4              1   -
        report.tenant@pro   tenant   200/d fixed              1   -           does not apply without tenant
        address             ip       50/s burst 300          20   13 rules
        api@pro             tenant   600/m burst 200         20   11 rules    does not apply without tenant
        monthly@pro         tenant   1000000/30d fixed       20   11 rules    does not apply without tenant
      All or nothing. Redis: one round trip. Redis Cluster, Durable Objects: 3 keys, so check, take, refund. Store unavailable: limited per process.
      "
    `);
    expect(rules.explain("GET", "/healthz")).toContain("Not limited");
    expect(rules.explain("GET", "/nowhere")).toContain('rule "fallback" (no rule matches)');
    expect(rules.explain("POST", "/V1/Reports")).toContain("unusual path");
    expect(rules.explain()).toContain("GET /v1/projects/:id/tasks");
  });
});

describe("plans", () => {
  const data = {
    plans: ["free", "pro"],
    defaultPlan: "free",
    rules: [{ name: "read", match: "/read", limits: { tenant: { free: "2/h", pro: "5/h" }, ip: "100/h" } }],
    fallback: FALLBACK,
  };

  test("have a bucket each, which is found again after a change back", async () => {
    const { rules } = rulesOn(data);
    const tries = (plan: string) => allowedOf(10, rules, "/read", { tenant: "acme", plan });
    expect([await tries("free"), await tries("pro"), await tries("free"), await tries("pro")]).toEqual([2, 5, 0, 0]);
  });

  test("that are unknown are treated as the default, and reported once per value", async () => {
    const events: object[] = [];
    const { rules } = rulesOn(data, { onEvent: (event: object) => events.push(event) });
    // No caller has them.
    expect(rules.find("GET", "/read", { plan: "silver" }).policies[0]?.name).toBe("read.tenant@free");
    expect(rules.explain("GET", "/read", { plan: "silver" })).toContain("read.tenant@free");
    expect(await allowedOf(10, rules, "/read", { tenant: "acme", plan: "gold" })).toBe(2);
    expect(await allowedOf(10, rules, "/read", { tenant: "b" })).toBe(2);
    expect(events).toEqual([{ type: "unknown-plan", policy: "", plan: "gold" }]);
    for (let i = 0; i < 300; i++) await allowedOf(1, rules, "/read", { tenant: "acme", plan: `p${i}` });
    expect(events).toHaveLength(100);
  });
});

test("a condition on the plan applies to callers whose plan is unknown, who have the default plan", () => {
  const conditions = loadRules(
    {
      plans: ["free", "pro"],
      defaultPlan: "free",
      rules: [
        { name: "free-search", match: "/search", when: { plan: "free" }, limits: { ip: "1/h" } },
        { name: "search", match: "/search", limits: { ip: "100/h" } },
      ],
      fallback: "unlimited",
    },
    { facts: ["plan"], onEvent: () => {} },
  );
  const ruleOf = (plan?: string) => conditions.find("GET", "/search", plan === undefined ? {} : { plan }).rule;
  expect([ruleOf("free"), ruleOf("pro"), ruleOf(), ruleOf(""), ruleOf("gold")]).toEqual([
    "free-search",
    "search",
    "free-search",
    "free-search",
    "free-search",
  ]);
});

describe("edge cases", () => {
  test("an unlimited override lifts the only limit of a caller", async () => {
    const { rules } = rulesOn({
      rules: [{ name: "s", match: "/s", limits: { client: "1/h" } }],
      fallback: FALLBACK,
      overrides: { "user:42": { "s.client": "unlimited" } },
    });
    expect(await allowedOf(3, rules, "/s", { user: "42" })).toBe(3);
    expect(await allowedOf(3, rules, "/s", { user: "43" })).toBe(1);
  });

  test("a condition on the plan uses the default plan of callers without one", () => {
    const { rules } = rulesOn({
      plans: ["free", "pro"],
      defaultPlan: "free",
      rules: [
        { name: "trial", match: "/x", when: { plan: "free" }, limits: { ip: "1/h" } },
        { name: "paid", match: "/x", limits: { ip: "9/h" } },
      ],
      fallback: FALLBACK,
    });
    expect(rules.find("GET", "/x").rule).toBe("trial");
    expect(rules.find("GET", "/x", { plan: "gold" }).rule).toBe("trial");
    expect(rules.find("GET", "/x", { plan: "pro" }).rule).toBe("paid");
  });
});
