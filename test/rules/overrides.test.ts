/** Limits of single customers: written in the rules, or returned by a function. */
import { memoryStore } from "sluice";
import { type LimitText, loadRules, type RuleSet } from "sluice/rules";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

const data = {
  budgets: { api: { tenant: "2/h" } },
  rules: [{ name: "read", match: "/read", limits: { ip: "1000/h" }, budgets: ["api"] }],
  fallback: { limits: { ip: "5/h" } },
};

async function allowedOf(tries: number, rules: RuleSet, tenant: string): Promise<number> {
  let allowed = 0;
  for (let i = 0; i < tries; i++) {
    const decision = await rules.consume({ method: "GET", path: "/read", ip: "203.0.113.7", facts: { tenant } });
    if (decision.allowed) allowed++;
  }
  return allowed;
}

describe("overrides in the rules", () => {
  test("replace a limit for one key, with buckets of their own", async () => {
    const overrides = { "tenant:acme": { api: "5/h" }, "tenant:free": { api: "unlimited" } };
    const rules = loadRules({ ...data, overrides }, { facts: ["tenant"] });
    expect(await allowedOf(10, rules, "acme")).toBe(5);
    expect(await allowedOf(10, rules, "other")).toBe(2);
    expect(await allowedOf(10, rules, "free")).toBe(10);
    expect(rules.find("GET", "/read", { tenant: "acme" }).policies).toContainEqual({
      name: "api@override",
      per: "tenant",
      limit: "5/h",
      amount: 1,
    });
  });

  test("exempt a key from the only limit of a rule", async () => {
    const overrides = { "user:42": { "search.client": "unlimited" } };
    const search = { name: "search", match: "/search", limits: { client: "1/h" } };
    const rules = loadRules({ rules: [search], fallback: { limits: { ip: "5/h" } }, overrides }, { facts: [] });
    const request = { method: "GET", path: "/search", ip: "203.0.113.7" };
    for (let i = 0; i < 3; i++) {
      expect(await rules.consume({ ...request, facts: { user: "42" } })).toMatchObject({
        allowed: true,
        rule: "search",
      });
    }
    expect((await rules.consume(request)).allowed).toBe(true);
    expect((await rules.consume(request)).allowed).toBe(false);
    await expect(rules.consume({ method: "GET", path: "/search" })).rejects.toMatchObject({ code: "unidentified" });
  });

  test("limit a key that is unlimited on its plan, or by a limit that applies to nobody else", async () => {
    const file = {
      plans: ["free", "enterprise"],
      defaultPlan: "free",
      budgets: {
        api: { tenant: { free: "1/h", enterprise: "unlimited" } },
        daily: { tenant: { free: "10/d of tokens", enterprise: "unlimited" } },
      },
      rules: [{ name: "read", match: "/read", limits: { ip: "1000/h", user: "unlimited" }, budgets: ["api", "daily"] }],
      fallback: { limits: { ip: "5/h" } },
      overrides: {
        "tenant:acme": { api: "3/h" },
        "tenant:big": { daily: "100/d of tokens" },
        "user:42": { "read.user": "2/h" },
        "user:43": { "read.user": "200/h of tokens" },
      },
    };
    const rules = loadRules(file, { facts: ["tenant", "plan", "tokens"] });
    const allowedFor = async (facts: object) => {
      const request = {
        method: "GET",
        path: "/read",
        ip: "203.0.113.7",
        facts: { plan: "enterprise", tokens: 50, ...facts },
      };
      let allowed = 0;
      for (let i = 0; i < 5; i++) if ((await rules.consume(request)).allowed) allowed++;
      return allowed;
    };
    expect(await allowedFor({ tenant: "other" })).toBe(5);
    expect(await allowedFor({ tenant: "acme" })).toBe(3);
    expect(await allowedFor({ tenant: "big" })).toBe(2);
    expect(await allowedFor({ user: "42" })).toBe(2);
    expect(await allowedFor({ user: "43" })).toBe(4);
    expect(rules.find("GET", "/read", { tenant: "acme", plan: "enterprise" }).policies).toMatchObject([
      { name: "read.ip" },
      { name: "api@override", limit: "3/h" },
    ]);
  });

  test("keep the bound of each bucket while they are switched 1000 times", async () => {
    const store = memoryStore({ clock: { now: () => 1_800_000_000_000 } });
    const rules = loadRules(data, { store, facts: ["tenant"] });
    const overrides = { "tenant:acme": { api: "5/h" } };
    let allowed = 0;
    for (let i = 0; i < 1000; i++) {
      await rules.replace(i % 2 === 0 ? { ...data, overrides } : data);
      allowed += await allowedOf(1, rules, "acme");
    }
    expect(allowed).toBe(2 + 5);
  });

  test("of 100 000 keys are created in linear time", () => {
    const many = (count: number) => {
      const keys = Array.from({ length: count }, (_, i) => [`tenant:t${i}`, { api: `${(i % 50) + 5}/h` }]);
      const json = { ...data, overrides: Object.fromEntries(keys) };
      const start = performance.now();
      loadRules(json, { facts: ["tenant"] });
      return performance.now() - start;
    };
    many(10_000);
    const [small, large] = [many(10_000), many(100_000)];
    // Ten times the keys; quadratic time would be a hundred times as long.
    expect(large, `10 000 took ${small} ms`).toBeLessThan(40 * Math.max(small, 5));
  });
});

describe("overrides from a function", () => {
  beforeEach(() => void vi.useFakeTimers({ now: 1_800_000_000_000 }));
  afterEach(() => void vi.useRealTimers());

  test("are read once per limit and key, and cached for 60 s", async () => {
    const find = vi.fn(async (limit: string, key: string) =>
      limit === "api" && key === "tenant:acme" ? ("5/h" as const) : undefined,
    );
    const rules = loadRules(data, { facts: ["tenant"], overrides: find });
    expect(await allowedOf(10, rules, "acme")).toBe(5);
    expect(await allowedOf(10, rules, "other")).toBe(2);
    expect(find.mock.calls.toSorted()).toEqual([
      ["api", "tenant:acme"],
      ["api", "tenant:other"],
      ["read.ip", "ip:203.0.113.7"],
    ]);
  });

  test("are used while they are read again, with one call in flight", async () => {
    let limit: "5/h fixed" | "9/h fixed" = "5/h fixed";
    let release: (() => void) | undefined;
    const find = vi.fn(async (name: string) => {
      if (name !== "api") return undefined;
      const value = limit;
      if (limit === "9/h fixed") await new Promise<void>((resolve) => (release = resolve));
      return value;
    });
    const rules = loadRules(data, { facts: ["tenant"], overrides: find });
    expect(await allowedOf(3, rules, "acme")).toBe(3);
    limit = "9/h fixed";
    await vi.advanceTimersByTimeAsync(60_001);
    expect(await allowedOf(4, rules, "acme")).toBe(2);
    expect(find.mock.calls.filter(([name]) => name === "api")).toHaveLength(2);
    release?.();
    await vi.advanceTimersByTimeAsync(0);
    // The same window, so the bucket is kept: 5 of 9 are spent.
    expect(await allowedOf(10, rules, "acme")).toBe(4);
  });

  test("that fail leave the rule's own limit, and emit an event", async () => {
    const events: { type: string; policy: string }[] = [];
    const onEvent = (event: { type: string; policy: string }) => void events.push(event);
    const rules = loadRules(data, {
      facts: ["tenant"],
      onEvent,
      overrides: (limit) => {
        if (limit === "api") throw new Error("the database is down");
        return undefined;
      },
    });
    expect(await allowedOf(5, rules, "acme")).toBe(2);
    expect(events).toEqual([expect.objectContaining({ type: "override-failed", policy: "api" })]);
    // It is called again after a second, not with every request.
    await vi.advanceTimersByTimeAsync(1001);
    await allowedOf(5, rules, "acme");
    expect(events).toHaveLength(2);
  });

  test("that return an invalid limit are treated as failed", async () => {
    const events: { type: string; error?: Error }[] = [];
    const rules = loadRules(data, {
      facts: ["tenant"],
      onEvent: (event) => void events.push(event as never),
      overrides: (limit) => (limit === "api" ? ("5 per hour" as never) : undefined),
    });
    expect(await allowedOf(5, rules, "acme")).toBe(2);
    expect(events[0]?.error?.message).toContain('overrides("api", "tenant:acme") returned an invalid limit');
  });

  test.each<[string, string, LimitText, LimitText]>([
    ["counts something else", "must count requests", "9/h", "9/h of items"],
    ["does not count what the limit does", "must count items", "9/h of items", "90/h"],
    ["has less than the weight of the rule", "has a capacity (3) below the weight of rule", "9/h", "3/h"],
    ["can't hold what the rule holds", "can't hold items", "9/h of items", "9/h queue 90 of items"],
  ])("that return a limit that %s are not used, and emit one event", async (_, reason, own, returned) => {
    const messages: string[] = [];
    const isHeld = reason.includes("hold");
    const rules = loadRules(
      {
        budgets: { api: { tenant: own } },
        rules: [
          {
            name: "read",
            match: "/read",
            limits: { ip: "1000/h" },
            budgets: ["api"],
            weight: 4,
            ...(isHeld ? { hold: "1m" } : {}),
          },
        ],
        fallback: { limits: { ip: "5/h" } },
      },
      {
        facts: ["tenant", "items"],
        onEvent: (event) => void messages.push("error" in event ? String(event.error) : event.type),
        overrides: (limit) => (limit === "api" ? returned : undefined),
      },
    );
    const request = { method: "GET", path: "/read", ip: "203.0.113.7", facts: { tenant: "acme", items: 4 } };
    const remaining = [];
    for (let i = 0; i < 2; i++) {
      const { parts } = await (isHeld ? rules.hold(request) : rules.consume(request));
      remaining.push(parts?.find(({ policy }) => policy === "api")?.remaining);
    }
    expect(remaining).toEqual([5, 1]);
    expect(messages).toEqual([expect.stringContaining(reason)]);
  });

  test("that hang delay a request by a second at most", async () => {
    const rules = loadRules(data, {
      facts: ["tenant"],
      onEvent: () => {},
      overrides: (limit) => (limit === "api" ? new Promise<undefined>(() => {}) : undefined),
    });
    const first = allowedOf(1, rules, "acme");
    await vi.advanceTimersByTimeAsync(1000);
    expect(await first).toBe(1);
    // Later requests don't wait for the same call.
    expect(await allowedOf(3, rules, "acme")).toBe(1);
  });

  test("that hang are made again after 10 s, and change nothing if they end later", async () => {
    const calls: ((text: "9/h") => void)[] = [];
    const rules = loadRules(data, {
      facts: ["tenant"],
      onEvent: () => {},
      overrides: (limit) => {
        if (limit !== "api") return undefined;
        return new Promise<"9/h" | "5/h">((resolve) => void (calls.push(resolve) > 1 && resolve("5/h")));
      },
    });
    const first = allowedOf(3, rules, "acme");
    await vi.advanceTimersByTimeAsync(9999);
    expect([await first, await allowedOf(1, rules, "acme"), calls.length]).toEqual([2, 0, 1]);
    await vi.advanceTimersByTimeAsync(1);
    // It is read in the background.
    expect([await allowedOf(1, rules, "acme"), calls.length]).toEqual([0, 2]);
    expect(await allowedOf(2, rules, "acme")).toBe(2);
    calls[0]?.("9/h");
    await vi.advanceTimersByTimeAsync(0);
    expect([await allowedOf(10, rules, "acme"), calls.length]).toEqual([3, 2]);
  });

  test("that no request fits into are refused", async () => {
    const events: { type: string; error?: Error }[] = [];
    const weighted = { ...data, rules: [{ ...data.rules[0], weight: 2 }] };
    const rules = loadRules(weighted, {
      facts: ["tenant"],
      onEvent: (event) => void events.push(event as never),
      overrides: (limit) => (limit === "api" ? "1/h" : undefined),
    });
    expect(await allowedOf(3, rules, "acme")).toBe(1);
    expect(events[0]?.error?.message).toContain("returned a limit that is not used");
  });

  test("keep the last value while the function fails", async () => {
    let fails = false;
    const rules = loadRules(data, {
      facts: ["tenant"],
      onEvent: () => {},
      overrides: async (limit) => {
        if (fails) throw new Error("the database is down");
        return limit === "api" ? "5/h" : undefined;
      },
    });
    expect(await allowedOf(1, rules, "acme")).toBe(1);
    fails = true;
    await vi.advanceTimersByTimeAsync(120_000);
    expect(await allowedOf(10, rules, "acme")).toBe(4);
  });
});
