/** Rules on Redis: one command per request, all or nothing byte for byte, shadow groups in the same call. */
import { redisStore } from "sluice/redis";
import { loadRules, type RuleSet, type RulesOptions } from "sluice/rules";
import { describe, expect, it } from "vitest";
import { redis, server } from "../redis/own-redis.ts";
import { spiedClient, withEmptyDatabase } from "../redis/spied-client.ts";
import { withRedis } from "../servers/needs.ts";
import { saasRules } from "./saas-rules.ts";

withEmptyDatabase();

const FACTS = ["tenant", "plan", "account", "items", "tokens"];
const IP = "203.0.113.7";

function rulesOn(data: object, options: RulesOptions = {}) {
  const client = spiedClient();
  const rules = loadRules(data, {
    store: redisStore(client),
    facts: FACTS,
    localDenialMs: 0,
    deadlineMs: 20_000,
    ...options,
  });
  return { client, rules };
}

/** Every key with its value and the end of its life. */
async function contents(): Promise<string[]> {
  const keys = (await redis.keys("*")).sort();
  return Promise.all(
    keys.map(async (key) => `${key} ${(await redis.dumpBuffer(key)).toString("hex")} ${await redis.pexpiretime(key)}`),
  );
}

/** A rule set without the members that need features of another layer. */
const supported = {
  ...saasRules,
  rules: saasRules.rules.map((rule) => ("preset" in rule ? { action: "deny", penalty: false, ...rule } : rule)),
};

describe("rules on Redis", withRedis, () => {
  it("send one command per request, whatever the rule", async () => {
    const { rules, client } = rulesOn(supported);
    const requests: [string, string][] = [
      ["POST", "/v1/sessions"],
      ["POST", "/v1/reports"],
      ["GET", "/v1/users"],
      ["POST", "/v1/files/7/share"],
      ["POST", "/v1/password-resets"],
      ["GET", "/nowhere"],
      ["POST", "/V1/Reports/"],
      ["POST", "/v1/tasks/bulk"],
    ];
    const facts = { tenant: "acme", plan: "pro", account: "ada", items: 3, tokens: 100, user: "42" };
    await rules.consume({ method: "GET", path: "/v1/me", ip: IP, facts });
    const monitor = await redis.monitor();
    const seen: string[] = [];
    monitor.on("monitor", (_time: string, [command = ""]: string[], source: string) => {
      if (source !== "lua") seen.push(command.toLowerCase());
    });
    for (const [method, path] of requests) {
      client.calls.length = 0;
      await rules.consume({ method, path, ip: IP, facts });
      expect(client.calls, `${method} ${path}`).toHaveLength(1);
    }
    client.calls.length = 0;
    const held = await rules.hold({ method: "POST", path: "/v1/ai/chat", ip: IP, facts });
    expect(client.calls, "a hold").toHaveLength(1);
    if (!held.allowed) throw new Error("the hold was denied");
    await held.hold.settle();
    await redis.ping();
    await redis.ping();
    monitor.disconnect();
    expect(seen.filter((command) => command !== "ping" && command !== "monitor" && command !== "info").length).toBe(
      requests.length + 2,
    );
  });

  it("leave the other buckets unchanged, byte for byte, if the last limit denies", async () => {
    const { rules } = rulesOn({
      rules: [{ name: "read", match: "/read", limits: { ip: "9/h", tenant: "5/h fixed", account: "2/h log" } }],
      fallback: { limits: { ip: "50/h" } },
    });
    const take = () =>
      rules.consume({ method: "GET", path: "/read", ip: IP, facts: { tenant: "acme", account: "ada" } });
    expect([(await take()).allowed, (await take()).allowed]).toEqual([true, true]);
    const before = await contents();
    expect(before).toHaveLength(3);
    for (let i = 0; i < 10; i++) expect(await take()).toMatchObject({ allowed: false, policy: "read.account" });
    expect(await contents()).toEqual(before);
  });

  it("admit exactly the limit to simultaneous requests of two rule sets", async () => {
    const data = {
      budgets: { api: { tenant: "30/h" } },
      rules: [{ name: "report", match: "/report", limits: { ip: "1000/h" }, budgets: ["api"], weight: 4 }],
      fallback: { limits: { ip: "50/h" } },
    };
    const sets = [rulesOn(data).rules, rulesOn(data).rules];
    const take = (rules: RuleSet | undefined) =>
      (rules as RuleSet).consume({ method: "GET", path: "/report", ip: IP, facts: { tenant: "acme" } });
    const decisions = await Promise.all(Array.from({ length: 100 }, (_, i) => take(sets[i % 2])));
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(7);
  });

  it("count shadow and flag limits in the same call, and never deny by them", async () => {
    const { rules, client } = rulesOn({
      budgets: { api: { ip: "6/h" } },
      defaults: { budgets: ["api"] },
      rules: [
        { name: "share", match: "/share", limits: { ip: "1/h" }, mode: "shadow" },
        { name: "reset", match: "/reset", limits: { ip: "50/h", account: "1/h" }, action: { account: "flag" } },
      ],
      fallback: { limits: { ip: "50/h" } },
    });
    const facts = { account: "ada" };
    const take = (path: string) => rules.consume({ method: "GET", path, ip: IP, facts });
    const decisions = [await take("/share"), await take("/share"), await take("/reset"), await take("/reset")];
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, true, true]);
    expect(decisions.map((decision) => "limited" in decision)).toEqual([false, false, false, true]);
    expect(client.calls).toHaveLength(4);
    expect(client.calls.map(({ keys }) => keys.length)).toEqual([2, 2, 3, 3]);
    // Two of six are left in the enforced budget.
    expect([(await take("/share")).allowed, (await take("/share")).allowed, (await take("/share")).allowed]).toEqual([
      true,
      true,
      false,
    ]);
  });

  it("repeat a denial without a round trip", async () => {
    const data = { rules: [], fallback: { limits: { ip: "2/h", tenant: "5/h" } } };
    const { rules, client } = rulesOn(data, { localDenialMs: 1000 });
    const take = () => rules.consume({ method: "GET", path: "/x", ip: IP, facts: { tenant: "acme" } });
    for (let i = 0; i < 3; i++) await take();
    client.calls.length = 0;
    for (let i = 0; i < 20; i++) expect(await take()).toMatchObject({ allowed: false, rule: "fallback" });
    expect(client.calls).toHaveLength(0);
  });

  it("repeat a denial beside a shadow limit without a round trip, and count no more", async () => {
    const data = {
      budgets: { api: { ip: "2/h" } },
      rules: [
        { name: "trial", match: "/x", limits: { ip: "9/h fixed", tenant: "9/h" }, mode: "shadow", budgets: ["api"] },
      ],
      fallback: { limits: { ip: "50/h" } },
    };
    const { rules, client } = rulesOn(data, { localDenialMs: 1000 });
    const take = () => rules.consume({ method: "GET", path: "/x", ip: IP, facts: { tenant: "acme" } });
    for (let i = 0; i < 3; i++) await take();
    client.calls.length = 0;
    for (let i = 0; i < 20; i++) expect(await take()).toMatchObject({ allowed: false, rule: "trial" });
    expect(client.calls).toHaveLength(0);
  });

  it("fail as each rule says while Redis is unavailable, with one event for the set", async () => {
    const events: string[] = [];
    const { rules } = rulesOn(
      {
        rules: [
          { name: "local", match: "/local", limits: { ip: "2/h" } },
          { name: "open", match: "/open", limits: { ip: "2/h" }, onStoreError: "open" },
          { name: "closed", match: "/closed", limits: { ip: "2/h" }, onStoreError: "closed" },
          { name: "throw", match: "/throw", limits: { ip: "2/h" }, onStoreError: "throw" },
        ],
        fallback: { limits: { ip: "50/h" } },
      },
      { deadlineMs: 50, onEvent: ({ type }) => void events.push(type) },
    );
    const take = (path: string) => rules.consume({ method: "GET", path, ip: IP });
    await take("/local");
    server.pause();
    try {
      for (let i = 0; i < 6; i++) await take("/open");
      expect([(await take("/local")).allowed, (await take("/local")).allowed, (await take("/local")).allowed]).toEqual([
        true,
        true,
        false,
      ]);
      expect(await take("/open")).toMatchObject({ allowed: true, degraded: true });
      expect(await take("/closed")).toMatchObject({ allowed: false, unavailable: true });
      await expect(take("/throw")).rejects.toMatchObject({ code: "store-unavailable" });
      // Besides, the store warns about the settings of this server.
      expect(events.filter((type) => type !== "warning")).toEqual(["store-down"]);
    } finally {
      server.resume();
    }
  });
});
