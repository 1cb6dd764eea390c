/** `without`: limits of callers who lack an identity, and the warning about limits that never apply. */
import express from "express";
import { rateLimit } from "sluice/express";
import { checkRules, defineRules, loadRules } from "sluice/rules";
import { describe, expect, test } from "vitest";
import { collectWarnings, listening, sendRequest } from "../frameworks/servers.ts";
import { wrong } from "../misuse/row.ts";

const FALLBACK = { limits: { ip: "1000/h" } } as const;
const ip = "203.0.113.7";

/** Returns how many of `count` requests are allowed. */
async function admitted(rules: object, count: number, facts: object = {}, more: object = {}): Promise<number> {
  let allowed = 0;
  for (let i = 0; i < count; i++) {
    const request = { method: "GET", path: "/v1/a", ip, facts, ...more };
    if ((await wrong(rules).consume(request)).allowed) allowed++;
  }
  return allowed;
}

describe("without", () => {
  const api = {
    plans: ["free", "pro"],
    defaultPlan: "free",
    rules: [
      { name: "api", match: "/v1/*", limits: { tenant: { free: "60/h", pro: "600/h" } }, without: { tenant: "5/h" } },
    ],
    fallback: FALLBACK,
  } as const;

  test("limits callers without the fact, and no others", async () => {
    const rules = defineRules(api);
    expect(await admitted(rules, 100)).toBe(5);
    expect(await admitted(rules, 100, { tenant: "acme" })).toBe(60);
    // Also without an IP address: the limit of the tenant applies to this caller.
    expect(await admitted(rules, 100, { tenant: "beta" }, { ip: undefined })).toBe(60);
    await expect(rules.consume({ method: "GET", path: "/v1/a" })).rejects.toThrow(/without an IP address/);
  });

  test("counts per client: the user, else the API key, else the IP address", async () => {
    const rules = defineRules(api);
    expect(await admitted(rules, 10, { user: "ada" })).toBe(5);
    expect(await admitted(rules, 10, { user: "eve" })).toBe(5);
    expect(await admitted(rules, 10)).toBe(5);
    const decision = await rules.consume({ method: "GET", path: "/v1/a", ip });
    expect(decision).toMatchObject({ allowed: false, policy: "api.without.tenant", rule: "api" });
  });

  test("applies to the limits of budgets, and by plan", async () => {
    const rules = defineRules({
      plans: ["free", "pro"],
      defaultPlan: "free",
      budgets: { shared: { tenant: "50/h" } },
      rules: [{ name: "api", match: "/v1/*", budgets: ["shared"], without: { tenant: { free: "2/h", pro: "4/h" } } }],
      fallback: { budgets: ["shared"], without: { tenant: ["9/h", "9/d"] } },
    });
    expect(await admitted(rules, 10)).toBe(2);
    expect(await admitted(rules, 10, { plan: "pro", user: "ada" })).toBe(4);
    expect(await admitted(rules, 100, { tenant: "acme" })).toBe(50);
    expect(await admitted(rules, 20, {}, { path: "/other" })).toBe(9);
  });

  test("may be overridden for a key, in the rules", async () => {
    const overrides = { "user:ada": { "api.without.tenant": "7/h" } } as const;
    const rules = defineRules({ ...api, overrides });
    expect(await admitted(rules, 10, { user: "ada" })).toBe(7);
    expect(await admitted(rules, 10, { user: "eve" })).toBe(5);
  });

  test("of a preset: callers without an account share the limit of one account", async () => {
    const rules = defineRules({
      rules: [{ name: "login", match: "/v1/a", preset: "login", penalty: false, action: "deny" }],
      fallback: FALLBACK,
    });
    expect(await admitted(rules, 30)).toBe(5);
  });

  test("is replaced by the rule's own value", async () => {
    const rules = defineRules({
      rules: [
        { name: "login", match: "/v1/a", preset: "login", penalty: false, action: "deny", without: { account: "8/h" } },
      ],
      fallback: FALLBACK,
    });
    expect(await admitted(rules, 30)).toBe(8);
  });

  test.each<[object, string, string]>([
    [
      { limits: { ip: "5/s" }, without: { tenant: "5/m" } },
      "rules[0].without.tenant",
      'the rule has no limit per "tenant"; its limits are per "ip"',
    ],
    [
      { limits: { ip: "5/s" }, without: { ip: "5/m" } },
      "rules[0].without.ip",
      'never applies, because every caller has "ip"',
    ],
    [
      { limits: { tenant: "5/s" }, without: { tenant: 5 } },
      "rules[0].without.tenant",
      'must be a limit such as "10/s burst 50", but received 5',
    ],
    [
      { limits: { tenant: "5/s" }, without: "5/m" },
      "rules[0].without",
      'must be an object such as { "tenant": "5/m" }, but received "5/m"',
    ],
    [
      { unlimited: true, without: { tenant: "5/m" } },
      "rules[0].without",
      "can't be combined with unlimited, which counts nothing",
    ],
    [
      { limits: { tenant: "5/s" }, without: { tenant: "unlimited" } },
      "rules[0].limits",
      "requests without a tenant would be unlimited; add a limit per ip, network, client or global",
    ],
  ])("%j is invalid", (rule, path, message) => {
    const issues = checkRules({ rules: [{ name: "a", match: "/a", ...rule }], fallback: FALLBACK });
    expect(issues.map(({ path, message }) => [path, message])).toEqual([[path, message]]);
  });

  test("an invalid identity is reported also if the budgets of the rule are unknown", () => {
    const rule = { name: "a", match: "/a", limits: { ip: "5/s" }, budgets: ["unknown"], without: { "ip+": "5/m" } };
    const issues = checkRules({ rules: [rule], fallback: FALLBACK });
    expect(issues.map(({ path }) => path)).toEqual(["rules[0].budgets[0]", 'rules[0].without["ip+"]']);
    expect(issues[1]?.message).toContain('"ip+" is not an identity');
  });

  test("explain and find describe it", () => {
    const rules = defineRules({
      ...api,
      rules: [{ ...api.rules[0] }, { name: "b", match: "/b", limits: { ip: "1/s", tenant: "1/h" } }],
    });
    expect(rules.explain("GET", "/v1/a")).toBe(`GET /v1/a  ->  rule "api" (rules[0], first match)
  policy               per      limit   charge   shared by
  api.tenant@free      tenant   60/h         1   -           does not apply without tenant
  api.without.tenant   client   5/h          1   -           applies without tenant
All or nothing. Redis: one round trip. Redis Cluster, Durable Objects: 2 keys, so check, take, refund. Store unavailable: limited per process.
`);
    expect(rules.explain("GET", "/v1/a", { tenant: "acme" })).not.toContain("without");
    expect(rules.explain("GET", "/b")).toMatch(/b\.tenant .*does not apply without tenant/);
    expect(rules.explain()).toContain("tenant { free: 60/h, pro: 600/h } (without tenant: 5/h)");
    expect(rules.explain()).toContain("ip 1/s; tenant 1/h (does not apply without tenant)");
    expect(rules.find("GET", "/v1/a").policies.map(({ name }) => name)).toEqual([
      "api.tenant@free",
      "api.without.tenant",
    ]);
    expect(rules.find("GET", "/v1/a", { tenant: "a" }).policies.map(({ name }) => name)).toEqual(["api.tenant@free"]);
  });
});

describe("a limit that never applies", () => {
  const login = [
    { name: "login", match: "POST /login", limits: { ip: "500/m", account: "5/15m log", "ip+account": "5/m" } },
  ];
  const request = { method: "POST", path: "/login", ip };

  test("is reported once, after 100 requests, with its rule, its name and the fact", async () => {
    const warnings = collectWarnings();
    const rules = loadRules({ rules: login, fallback: FALLBACK }, { facts: ["account"] });
    for (let i = 0; i < 99; i++) await rules.consume(request);
    expect(warnings).toEqual([]);
    for (let i = 0; i < 200; i++) await rules.consume(request);
    expect(warnings.map(({ code }) => code)).toEqual(["SLUICE_LIMIT_NOT_APPLIED"]);
    expect(warnings[0]?.text).toMatch(
      /^Limits "login\.account" and "login\.ip\+account" of rule "login" applied to none of the first 100 matching requests, because account was unknown\. Return it from facts\.account, or limit callers without it: without: \{ "account": "5\/m" \}\. See /,
    );
  });

  test("is not reported if it applied once, nor if its overrides are unlimited", async () => {
    const warnings = collectWarnings();
    const rules = loadRules({ rules: login, fallback: FALLBACK }, { facts: ["account"] });
    for (let i = 0; i < 50; i++) await rules.consume(request);
    await rules.consume({ ...request, facts: { account: "ada" } });
    for (let i = 0; i < 200; i++) await rules.consume(request);
    const exempt = loadRules(
      {
        rules: [{ name: "api", match: "/login", limits: { ip: "500/m", tenant: "5/m" } }],
        fallback: FALLBACK,
        overrides: { "tenant:acme": { "api.tenant": "unlimited" } },
      },
      { facts: ["tenant"] },
    );
    for (let i = 0; i < 200; i++) await exempt.consume({ ...request, facts: { tenant: "acme" } });
    expect(warnings).toEqual([]);
  });

  test("is an event where onEvent is set, and a reload neither repeats nor restarts it", async () => {
    const warnings = collectWarnings();
    const events: unknown[] = [];
    const data = { rules: login, fallback: FALLBACK };
    const rules = loadRules(data, { facts: ["account"], onEvent: (event) => events.push(event) });
    for (let i = 0; i < 60; i++) await rules.consume(request);
    await rules.replace(data);
    for (let i = 0; i < 200; i++) await rules.consume(request);
    await rules.replace(data);
    for (let i = 0; i < 200; i++) await rules.consume(request);
    expect(events).toEqual([
      {
        type: "warning",
        policy: "login.account",
        message: expect.stringContaining("applied to none of the first 100"),
      },
    ]);
    expect(warnings).toEqual([]);
  });

  test("is not reported if callers without the fact have a limit", async () => {
    const warnings = collectWarnings();
    const limited = [
      { name: "api", match: "/login", limits: { ip: "500/m", tenant: "5/m" }, without: { tenant: "9/m" } },
    ];
    const rules = loadRules({ rules: limited, fallback: FALLBACK }, { facts: ["tenant"] });
    for (let i = 0; i < 200; i++) await rules.consume(request);
    expect(warnings).toEqual([]);
  });

  test.each([
    ["limits", { limits: { ip: "500/m", account: "5/15m log" } }, 'Limit "login.account"'],
    [
      "a preset",
      { preset: "login", penalty: false, action: "deny", limits: { ip: "500/m" } },
      'Limits "login.ip+account" and "login.account"',
    ],
  ])("names the body parser if the fact reads a body that is not parsed: %s", async (_, rule, limits) => {
    const warnings = collectWarnings();
    const rules = loadRules(
      { rules: [{ name: "login", match: "POST /login", ...rule }], fallback: FALLBACK },
      { facts: ["account"] },
    );
    const app = express();
    app.use(rateLimit({ rules, facts: { account: (request) => request.body?.email } }));
    app.use(express.json());
    app.use((_request, response) => void response.send("ok"));
    const url = await listening(app);
    const body = JSON.stringify({ email: "ada@example.com" });
    for (let i = 0; i < 101; i++) {
      await sendRequest(`${url}/login`, { method: "POST", body, headers: { "content-type": "application/json" } });
    }
    expect(warnings).toHaveLength(1);
    expect(warnings[0]?.text).toContain(
      `${limits} of rule "login" applied to none of the first 100 matching requests, because account was unknown. facts.account reads the body, which is not parsed yet: mount the body parser, such as express.json(), before rateLimit; in Fastify, use the hook "preHandler".`,
    );
  });
});
