/** Tests what valid rules become: presets, defaults, names, facts and versions. */
import { describe, expect, it } from "vitest";
import type { ParsedLimit, ParsedRule } from "../../src/rules/parsed-rules.ts";
import { presets } from "../../src/rules/presets.ts";
import type { PresetName } from "../../src/rules/rules-data.ts";
import { type AnyFile, parsed, parsedAfter, validFile } from "./rule-files.ts";
import { saasRules } from "./saas-rules.ts";

/** The limits of a rule in short: name, text and action. */
const limitsOf = ({ limits }: ParsedRule) =>
  limits.map(({ name, spec, action }) => [name, "text" in spec ? spec.text : Object.fromEntries(spec), action]);

const withPreset = (preset: PresetName, members: object = {}): ParsedRule =>
  parsedAfter((file) => {
    file.defaults = { budgets: ["address"] };
    file.rules = [{ name: "r", match: "/r", preset, ...members }];
  }).rules[0] as ParsedRule;

describe("presets", () => {
  it.each<[PresetName, unknown[], Partial<ParsedRule>, boolean]>([
    [
      "login",
      [
        ["r.ip", "20/15m log", "deny"],
        ["r.ip+account", "5/15m log", "deny"],
        ["r.account", "50/h log", "challenge"],
        ["r.without.account", "5/15m log", "deny"],
      ],
      { refundIf: "reported", onStoreError: "closed", penalty: true },
      false,
    ],
    [
      "mfa",
      [
        ["r.ip", "20/h log", "deny"],
        ["r.user", "5/15m log", "deny"],
        ["r.without.user", "5/15m log", "deny"],
      ],
      { onStoreError: "closed", penalty: true, refundIf: undefined },
      false,
    ],
    [
      "password-reset",
      [
        ["r.ip", "10/h log", "deny"],
        ["r.account", "3/h log", "flag"],
        ["r.without.account", "3/h log", "deny"],
      ],
      { onStoreError: "closed", penalty: false },
      false,
    ],
    [
      "signup",
      [
        ["r.ip", "5/h log", "challenge"],
        ["r.network", "30/h log", "deny"],
      ],
      { onStoreError: "closed", refundIf: "failed" },
      false,
    ],
    ["anonymous", [["r.ip", "5/s burst 50", "deny"]], { onStoreError: "local" }, false],
    ["payments", [["r.client", "10/m burst 5", "deny"]], { onStoreError: "closed" }, false],
    ["webhooks", [["r.ip", "50/s burst 500", "deny"]], { onStoreError: "local" }, false],
    ["public-api", [["r.client", "10/s burst 50", "deny"]], { onStoreError: "local" }, true],
    ["search", [["r.client", "5/s burst 20", "deny"]], { onStoreError: "local" }, true],
    [
      "ai-tokens",
      [
        ["r.client", "2/s burst 10", "deny"],
        ["r.client.2", "100000/m of tokens", "deny"],
      ],
      { onStoreError: "local", weight: 1, holdMs: 300_000 },
      true,
    ],
  ])("%s", (name, limits, settings, hasBudgets) => {
    const rule = withPreset(name);
    expect(limitsOf(rule)).toEqual(limits);
    expect(rule).toMatchObject(settings);
    expect(rule.budgets.map(({ name }) => name)).toEqual(hasBudgets ? ["address"] : []);
  });

  it("are all covered above, and frozen", () => {
    expect(Object.keys(presets)).toHaveLength(10);
    const isFrozen = (value: unknown): boolean =>
      typeof value !== "object" || (Object.isFrozen(value) && Object.values(value as object).every(isFrozen));
    expect(isFrozen(presets)).toBe(true);
  });

  it("are merged by identity: the preset's order, the rule's values", () => {
    const rule = withPreset("login", { limits: { user: "9/s", "ip+account": ["1/s", "2/m"], account: "unlimited" } });
    expect(limitsOf(rule)).toEqual([
      ["r.ip", "20/15m log", "deny"],
      ["r.ip+account", "1/s", "deny"],
      ["r.ip+account.2", "2/m", "deny"],
      ["r.account", "unlimited", "challenge"],
      ["r.user", "9/s", "deny"],
      ["r.without.account", "5/15m log", "deny"],
    ]);
  });

  it("are replaced by any other member of the rule", () => {
    const rule = withPreset("login", {
      action: "flag",
      budgets: ["address"],
      refundIf: "failed",
      onStoreError: "open",
      penalty: false,
    });
    expect(rule.limits.map(({ action }) => action)).toEqual(["flag", "flag", "flag", "deny"]);
    expect(rule).toMatchObject({ refundIf: "failed", onStoreError: "open", penalty: false });
    expect(rule.budgets).toHaveLength(1);
  });

  it("apply to the fallback", () => {
    const { fallback } = parsedAfter((file) => (file.fallback = { preset: "anonymous" }));
    expect(limitsOf(fallback)).toEqual([["fallback.ip", "5/s burst 50", "deny"]]);
  });
});

describe("a parsed rule", () => {
  it("has the documented defaults", () => {
    expect(parsed(validFile()).rules[0]).toMatchObject({
      name: "r0",
      path: "rules[0]",
      when: [],
      isUnlimited: false,
      budgets: [],
      perPattern: false,
      weight: 1,
      holdMs: undefined,
      refundIf: undefined,
      mode: "enforce",
      onStoreError: "local",
      penalty: false,
    });
  });

  it("takes what it does not set from the defaults", () => {
    const { rules, fallback } = parsedAfter((file) => {
      file.defaults = { budgets: ["api", "address"], mode: "shadow", onStoreError: "closed", refundIf: "failed" };
      Object.assign(file.rules[1], { budgets: [], mode: "enforce", onStoreError: "open", refundIf: "succeeded" });
      Object.assign(file.rules[2], { preset: "ai-tokens", limits: {} });
      // Replaces both limits of the preset, so nothing is held.
      Object.assign(file.rules[3], { preset: "ai-tokens", limits: { client: "1/s" } });
    });
    const settings = { mode: "shadow", onStoreError: "closed", refundIf: "failed" };
    expect(rules[0]).toMatchObject(settings);
    expect(fallback).toMatchObject(settings);
    expect(rules[0]?.budgets.map(({ name }) => name)).toEqual(["api", "address"]);
    expect(rules[1]).toMatchObject({ budgets: [], mode: "enforce", onStoreError: "open", refundIf: "succeeded" });
    // What is held is settled, not refunded.
    expect(rules[2]).toMatchObject({ holdMs: 300_000, refundIf: undefined, onStoreError: "local" });
    expect(rules[3]).toMatchObject({ holdMs: undefined, refundIf: "failed" });
  });

  it("has the policies, counted facts and conditions of its texts", () => {
    const { rules, budgets, facts } = parsedAfter((file) => {
      file.rules[3].limits = {
        "ip+account": { free: "1/s of items", pro: "2/s", enterprise: "unlimited" },
        ip: "3/m log",
      };
      file.rules[3].when = { bot: "likely", plan: ["pro", "free"], user: "42" };
    });
    const [byPlan, log] = rules[3]?.limits ?? [];
    expect(byPlan).toMatchObject({ name: "r3.ip+account", per: "ip+account", identities: ["ip", "account"] });
    expect([...((byPlan as ParsedLimit).spec as ReadonlyMap<string, unknown>)]).toMatchObject([
      ["free", { text: "1/s of items", of: "items", policy: { capacity: 1, tokensPerSecond: "1/s" } }],
      ["pro", { text: "2/s", of: undefined, policy: { capacity: 2 } }],
      ["enterprise", { text: "unlimited", policy: undefined }],
    ]);
    expect(log?.spec).toMatchObject({ policy: { algorithm: "sliding-log", limit: 3, windowMs: 60_000 } });
    expect(rules[3]?.when).toEqual([
      { fact: "bot", values: ["likely"] },
      { fact: "plan", values: ["pro", "free"] },
      { fact: "user", values: ["42"] },
    ]);
    expect(budgets.map(({ name }) => name)).toEqual(["address", "api", "monthly"]);
    expect(facts).toEqual(["tenant", "plan", "bot", "account", "items"]);
  });

  it("has overrides by key and limit", () => {
    const { overrides } = parsedAfter((file) => {
      file.overrides = {
        "tenant:acme": { api: "5000/m burst 1000", monthly: "unlimited" },
        "user:1": { "r1.client": "1/s" },
      };
    });
    expect([...overrides.keys()]).toEqual(["tenant:acme", "user:1"]);
    expect(overrides.get("tenant:acme")?.get("api")).toMatchObject({ policy: { capacity: 1000 } });
    expect(overrides.get("tenant:acme")?.get("monthly")).toMatchObject({ text: "unlimited", policy: undefined });
    expect(overrides.get("user:1")?.get("r1.client")).toMatchObject({ text: "1/s" });
  });
});

describe("facts", () => {
  const factsAfter = (change: (file: AnyFile) => void) =>
    parsedAfter((file) => {
      file.budgets = {};
      change(file);
    }).facts;

  it("does not contain the plan if no limit is written by plan", () => expect(factsAfter(() => {})).toEqual([]));
  it("does not contain what identity may verify", () => {
    const limits = { ip: "1/s", user: "1/s", apiKey: "1/s", network: "1/s", global: "1/s", "user+ip": "1/s" };
    expect(factsAfter((file) => (file.rules[0].limits = limits))).toEqual([]);
  });
  it("contains those of the example", () => {
    expect([...parsed(saasRules).facts].sort()).toEqual(["account", "items", "plan", "tenant", "tokens"]);
  });
});

describe("the data and its version", () => {
  const reversed = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(reversed);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value)
        .reverse()
        .map(([key, member]) => [key, reversed(member)]),
    );
  };

  it("is a frozen copy", () => {
    const file = validFile();
    const { data } = parsed(file);
    expect(data).toEqual(file);
    file.rules[0].limits.client = "1/d";
    expect(data.rules[0]?.limits).toEqual({ client: "10/s" });
    expect(Object.isFrozen(data) && Object.isFrozen(data.rules) && Object.isFrozen(data.rules[0]?.limits)).toBe(true);
  });

  it("has 8 hex digits, whatever the order of members, and ignores $schema", () => {
    const { version } = parsed(saasRules);
    expect(version).toBe("818c7854");
    expect(parsed(reversed(saasRules)).version).toBe(version);
    expect(parsed({ ...saasRules, $schema: "./rules.schema.json" }).version).toBe(version);
    expect(parsed(JSON.parse(JSON.stringify(saasRules))).version).toBe(version);
  });

  it("differs for other rules, also if only their order differs", () => {
    const file = validFile();
    const { version } = parsed(file);
    expect(parsedAfter((file) => file.rules.reverse()).version).not.toBe(version);
    expect(parsedAfter((file) => (file.rules[0].weight = 2)).version).not.toBe(version);
  });

  it("leaves out members that are undefined", () => {
    const rules = parsedAfter((file) => Object.assign(file.rules[0], { weight: undefined, hold: undefined }));
    expect(rules.version).toBe(parsed(validFile()).version);
    expect(rules.data.rules[0]).not.toHaveProperty("weight");
  });
});
