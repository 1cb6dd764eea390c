/** 512 rules with three plans on one store: events, cached denials and policy names of all of them. */
import { createLimiter, memoryStore, type Store } from "sluice";
import { redisStore } from "sluice/redis";
import { defineRules, loadRules } from "sluice/rules";
import { describe, expect, it, test } from "vitest";
import { server } from "../redis/own-redis.ts";
import { spiedClient, withEmptyDatabase } from "../redis/spied-client.ts";
import { withRedis } from "../servers/needs.ts";

const RULES = 512;
const PLANS = ["free", "pro", "team"];
const IP = "203.0.113.7";

/** Rules with a limit per plan. The kind is that of every limit: `fixed`, `log` or none. */
function manyRules(kind = "", count = RULES) {
  const limits = {
    ip: `10000/h ${kind}`.trim(),
    tenant: Object.fromEntries(PLANS.map((plan) => [plan, `1/h ${kind}`.trim()])),
  };
  return {
    plans: PLANS,
    defaultPlan: "free",
    rules: Array.from({ length: count }, (_, i) => ({ name: `r${i}`, match: `/r${i}`, limits })),
    fallback: { limits: { ip: "50/h" } },
  };
}

/** Every rule with every plan. */
const REQUESTS = Array.from({ length: RULES }, (_, i) =>
  PLANS.map((plan) => ({ method: "GET", path: `/r${i}`, ip: IP, facts: { tenant: "acme", plan } })),
).flat();

/** The names of all policies that a set claims. */
function namesOf(count = RULES): string[] {
  const names = Array.from({ length: count }, (_, i) => [`r${i}.ip`, ...PLANS.map((plan) => `r${i}.tenant@${plan}`)]);
  return [...names.flat(), "fallback.ip"];
}

/** Those names that another policy can't claim on a store. */
async function claimedOf(store: Store, names: readonly string[]): Promise<string[]> {
  const claimed: string[] = [];
  for (const name of names) {
    try {
      const policy = { algorithm: "fixed-window", limit: 77, windowMs: 777_000, name } as const;
      await createLimiter({ policy, store }).dispose();
    } catch {
      claimed.push(name);
    }
  }
  return claimed;
}

describe("512 rules with three plans on Redis", withRedis, () => {
  withEmptyDatabase();

  it("lose no cached denial", async () => {
    const client = spiedClient();
    const options = { facts: ["tenant", "plan"], deadlineMs: 20_000, localDenialMs: 20_000 };
    const rules = loadRules(manyRules(), { store: redisStore(client), ...options });
    const round = async () => {
      const decisions = await Promise.all(REQUESTS.map((request) => rules.consume(request)));
      return decisions.filter(({ allowed }) => allowed).length;
    };
    expect([await round(), await round()]).toEqual([RULES * PLANS.length, 0]);
    client.calls.length = 0;
    expect(await round()).toBe(0);
    expect(client.calls).toHaveLength(0);
    await rules.dispose();
  });

  it("emit store-down and store-up once for all of them", async () => {
    const events: string[] = [];
    const rules = loadRules(manyRules(), {
      store: redisStore(spiedClient()),
      facts: ["tenant", "plan"],
      deadlineMs: 50,
      onEvent: ({ type }) => void (type === "warning" || events.push(type)),
    });
    await rules.consume(REQUESTS[0] as (typeof REQUESTS)[0]);
    server.pause();
    try {
      for (let i = 0; i < 6; i++) await rules.consume(REQUESTS[i] as (typeof REQUESTS)[0]);
      await Promise.all(REQUESTS.map((request) => rules.consume(request)));
      expect(events).toEqual(["store-down"]);
    } finally {
      server.resume();
    }
    const isBack = async () => !(await rules.consume({ method: "GET", path: "/", ip: IP })).degraded;
    await expect.poll(isBack, { timeout: 20_000 }).toBe(true);
    expect(events).toEqual(["store-down", "store-up"]);
    await rules.dispose();
  });
});

describe("names on a store", () => {
  const data = { rules: [], fallback: { limits: { ip: "5/h" } } } as const;

  test("of 512 rules with three plans are claimed once, also if every algorithm changes", async () => {
    const store = memoryStore();
    const rules = loadRules(manyRules(), { store, facts: ["tenant", "plan"] });
    const all = namesOf();
    expect(all).toHaveLength(4 * RULES + 1);
    expect(await claimedOf(store, all)).toEqual(all);
    for (const kind of ["fixed", "log", "sliding", ""]) await rules.replace(manyRules(kind));
    expect(await claimedOf(store, all)).toEqual(all);
    // What a rejected reload would have claimed is not claimed, and the rest still is.
    const other = createLimiter({
      policy: { limit: 1, windowMs: 1000, algorithm: "fixed-window", name: "mine.ip" },
      store,
    });
    const conflict = manyRules("log");
    const mine = { name: "mine", match: "/mine", limits: { ip: "5/h" } };
    conflict.rules.splice(0, 2, { ...mine, name: "new", match: "/new" } as never, mine as never);
    await expect(rules.replace(conflict)).rejects.toThrow(/"mine.ip"/);
    expect(await claimedOf(store, ["new.ip", ...all])).toEqual(all);
    await other.dispose();
    // Rules that were removed release their names.
    await rules.replace(manyRules("log", 100));
    expect(await claimedOf(store, all)).toEqual([...namesOf(100)]);
    await rules.dispose();
    expect(await claimedOf(store, all)).toEqual([]);
  });

  test("conflict between rule sets without a prefix, until one is disposed of", async () => {
    const store = memoryStore();
    const first = defineRules(data, { store });
    expect(() => defineRules(data, { store })).not.toThrow();
    const other = { rules: [], fallback: { limits: { ip: "6/h" } } } as const;
    expect(() => defineRules(other, { store })).toThrow(/fallback.ip/);
    defineRules(other, { store, prefix: "b" });
    await first.dispose();
    await expect(first.consume({ method: "GET", path: "/", ip: IP })).rejects.toMatchObject({ code: "disposed" });
  });

  test("are replaced in one step, also with another algorithm, or not at all", async () => {
    const store = memoryStore();
    const rules = defineRules(data, { store });
    await rules.replace({ rules: [], fallback: { limits: { ip: "5/h log" } } });
    createLimiter({ policy: { limit: 1, windowMs: 1000, algorithm: "fixed-window", name: "mine" }, store });
    const budgets = { mine: { ip: "5/h" } };
    await expect(rules.replace({ budgets, rules: [], fallback: { budgets: ["mine"] } })).rejects.toThrow(/"mine"/);
    expect(rules.data.fallback).toEqual({ limits: { ip: "5/h log" } });
    await expect(rules.replace({ rules: [], fallback: { limits: { ip: "5/h log" } } })).resolves.toBeDefined();
  });
});
