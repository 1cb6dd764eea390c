/** Tests the messages for mistakes in rules and in the file as a whole, and those that the documentation lists. */
import { describe, expect, it } from "vitest";
import { type AnyFile, linesAfter, linesOf, validFile } from "./rule-files.ts";

type Row = readonly [what: string, change: (file: AnyFile) => void, line: string];

/** A change of one rule. */
const rule = (index: number, members: object) => (file: AnyFile) => void Object.assign(file.rules[index], members);
const set = (members: object) => (file: AnyFile) => void Object.assign(file, members);

it("accepts the file that the rows change", () => expect(linesOf(validFile())).toEqual([]));

describe("the documented messages", () => {
  it.each<Row>([
    [
      "a plan without a limit",
      rule(3, { limits: { client: "1/s", tenant: { free: "10/s" } } }),
      'rules[3].limits.tenant: missing a limit for plans "pro" and "enterprise"',
    ],
    [
      "a text that is not a limit",
      rule(3, { limits: { client: "60 per minute" } }),
      'rules[3].limits.client: "60 per minute" is not a limit; write it like "10/s burst 50", "1000/d fixed", "5/15m log" or "unlimited"',
    ],
    [
      "a pattern without a slash",
      rule(2, { match: "POST login" }),
      'rules[2].match: "POST login" is not a pattern; write "[METHODS] /path" with literal segments, :names and an optional trailing *',
    ],
    [
      "a regular expression",
      rule(2, { match: "/v1/(.*)" }),
      'rules[2].match: "/v1/(.*)" is not a pattern; write "[METHODS] /path" with literal segments, :names and an optional trailing *',
    ],
    [
      "a rule after one that matches everything it does",
      (file) => {
        Object.assign(file.rules[4], { name: "v1", match: "/v1/*" });
        file.rules[9].match = "GET /v1/users/:id";
      },
      'rules[9].match: unreachable, because rules[4] "v1" matches all of its requests first',
    ],
    [
      "no limit for all callers",
      rule(7, { limits: { tenant: "10/s" } }),
      "rules[7].limits: requests without a tenant would be unlimited; add a limit per ip, network, client or global",
    ],
    [
      "an unknown budget",
      rule(7, { budgets: ["address", "api", "monhtly"] }),
      'rules[7].budgets[2]: unknown budget "monhtly"; the budgets are "address", "api" and "monthly"',
    ],
    [
      "a weight that does not fit",
      rule(8, { weight: 40, budgets: ["api"] }),
      'rules[8].weight: 40 is more than the capacity of budget "api" on plan "free" (30)',
    ],
    [
      "a concurrency limit of a fact",
      rule(3, { limits: { client: "5 concurrent of tokens" } }),
      'rules[3].limits.client: a concurrency limit counts requests in flight; remove "of tokens"',
    ],
    [
      "a hold with refunds",
      rule(3, { limits: { client: "100/m of tokens" }, hold: "1m", refundIf: "failed" }),
      "rules[3].refundIf: can't be combined with hold; settle the actual amount instead",
    ],
    [
      "two identities in a budget",
      (file) => {
        file.budgets.api = { tenant: "1/s", ip: "1/s" };
      },
      'budgets.api: a budget has one identity, but this one has "tenant" and "ip"; define two budgets',
    ],
  ])("%s", (_, change, line) => expect(linesAfter(change)).toEqual([line]));
});

describe("rules", () => {
  it.each<Row>([
    ["a misspelt member", rule(3, { limit: {} }), 'rules[3].limit: unknown member "limit"; did you mean "limits"?'],
    [
      "an unknown member",
      (file) => (file.fallback.colour = "red"),
      'fallback.colour: unknown member "colour"; the members are "preset", "limits", "budgets", "unlimited", "perPattern", "weight", "hold", "refundIf", "mode", "onStoreError", "action", "withClearance" and "penalty"',
    ],
    ["a name twice", rule(3, { name: "r1" }), 'rules[3].name: the name "r1" is already used by rules[1]'],
    [
      "the name of the fallback",
      rule(3, { name: "fallback" }),
      'rules[3].name: "fallback" is the name of the fallback; choose another name',
    ],
    [
      "a name with a dot",
      rule(3, { name: "a.b" }),
      'rules[3].name: must be 1 to 40 letters, digits, "_" or "-", but received "a.b"',
    ],
    [
      "no match",
      (file) => delete file.rules[3].match,
      'rules[3].match: must be a pattern such as "GET /v1/users/:id", but received undefined',
    ],
    ["an empty match", rule(3, { match: [] }), "rules[3].match: needs at least one item"],
    [
      "a number in match",
      rule(3, { match: ["/a", 5] }),
      'rules[3].match[1]: must be a pattern such as "GET /v1/users/:id", but received 5',
    ],
    ["a misspelt preset", rule(3, { preset: "logn" }), 'rules[3].preset: unknown preset "logn"; did you mean "login"?'],
    [
      "an unknown preset",
      rule(3, { preset: "everything" }),
      'rules[3].preset: unknown preset "everything"; the presets are "anonymous", "payments", "login", "mfa", "password-reset", "signup", "webhooks", "public-api", "search" and "ai-tokens"',
    ],
    [
      "a preset that is not text",
      rule(3, { preset: 5 }),
      "rules[3].preset: must be the name of a preset, but received 5",
    ],
    [
      "a fraction as weight",
      rule(3, { weight: 1.5 }),
      "rules[3].weight: must be a whole number from 1 to 2147483647, but received 1.5",
    ],
    [
      "a weight of 0",
      rule(3, { weight: 0 }),
      "rules[3].weight: must be a whole number from 1 to 2147483647, but received 0",
    ],
    ["a penalty as text", rule(3, { penalty: "yes" }), 'rules[3].penalty: must be true or false, but received "yes"'],
    ["a mode", rule(3, { mode: "dry" }), 'rules[3].mode: must be "enforce" or "shadow", but received "dry"'],
    [
      "what to do without the store",
      rule(3, { onStoreError: "fail" }),
      'rules[3].onStoreError: must be "local" or "open" or "closed" or "throw", but received "fail"',
    ],
    ["refundIf", rule(3, { refundIf: true }), 'rules[3].refundIf: must be "failed" or "succeeded", but received true'],
    ["perPattern", rule(3, { perPattern: 1 }), "rules[3].perPattern: must be true or false, but received 1"],
    [
      "an action",
      rule(3, { action: "block" }),
      'rules[3].action: must be "deny" or "challenge" or "flag", but received "block"',
    ],
    [
      "an action of one identity",
      rule(3, { action: { client: "block" } }),
      'rules[3].action.client: must be "deny" or "challenge" or "flag", but received "block"',
    ],
    [
      "an action of an identity without a limit, such as that of a budget",
      rule(3, { budgets: ["address"], action: { ip: "flag" } }),
      'rules[3].action.ip: the rule has no limit of its own per "ip"; its limits are per "client"',
    ],
    [
      "a clearance without a challenge",
      rule(3, { withClearance: { client: "100/s" } }),
      'rules[3].withClearance: replaces nothing, because no limit of the rule has the action "challenge"',
    ],
    [
      "unlimited: false",
      rule(3, { unlimited: false }),
      "rules[3].unlimited: must be true or left out, but received false",
    ],
    [
      "unlimited with limits",
      rule(3, { unlimited: true }),
      "rules[3].limits: can't be combined with unlimited, which counts nothing",
    ],
    [
      "unlimited with a preset",
      (file) => (file.rules[3] = { name: "a", match: "/a", unlimited: true, preset: "login" }),
      "rules[3].preset: can't be combined with unlimited, which counts nothing",
    ],
    [
      "unlimited with budgets",
      (file) => (file.rules[3] = { name: "a", match: "/a", unlimited: true, budgets: [] }),
      "rules[3].budgets: can't be combined with unlimited, which counts nothing",
    ],
    ["a budget twice", rule(3, { budgets: ["api", "api"] }), 'rules[3].budgets[1]: budget "api" is listed twice'],
    [
      "budgets as text",
      rule(3, { budgets: "api" }),
      'rules[3].budgets: must be a list of names of budgets, but received "api"',
    ],
    [
      "a rule as text",
      (file) => (file.rules[3] = "GET /"),
      'rules[3]: must be a rule, which is an object, but received "GET /"',
    ],
    [
      "when as a list",
      rule(3, { when: ["bot"] }),
      'rules[3].when: must be an object of facts, such as { "bot": "likely" }, but received an array',
    ],
    [
      "a number in when",
      rule(3, { when: { bot: [1] } }),
      "rules[3].when.bot[0]: must be text, or a list of texts, but received 1",
    ],
    ["no values in when", rule(3, { when: { bot: [] } }), "rules[3].when.bot: needs at least one item"],
    ["an identity in when", rule(3, { when: { ip: "::1" } }), 'rules[3].when.ip: "ip" is not the name of a fact'],
    [
      "an unknown plan in when",
      rule(3, { when: { plan: ["free", "prp"] } }),
      'rules[3].when.plan[1]: unknown plan "prp"; the plans are "free", "pro" and "enterprise"',
    ],
  ])("%s", (_, change, line) => expect(linesAfter(change)).toEqual([line]));
});

describe("the file", () => {
  it.each<Row>([
    ["version 2", set({ version: 2 }), "version: must be 1, but received 2"],
    ["$schema", set({ $schema: 5 }), "$schema: must be text, but received 5"],
    ["caseSensitive", set({ caseSensitive: "no" }), 'caseSensitive: must be true or false, but received "no"'],
    [
      "no fallback",
      (file) => delete file.fallback,
      'fallback: missing; requests that match no rule need limits, or "unlimited"',
    ],
    [
      "a fallback as text",
      set({ fallback: "none" }),
      'fallback: must be an object with limits, or "unlimited", but received "none"',
    ],
    [
      "perPattern in the fallback",
      (file) => (file.fallback.perPattern = true),
      "fallback.perPattern: the fallback has no patterns",
    ],
    ["no rules", (file) => delete file.rules, "rules: must be a list of rules, but received undefined"],
    [
      "513 rules",
      (file) =>
        (file.rules = Array.from({ length: 513 }, (_, i) => ({ ...file.rules[0], name: `n${i}`, match: `/${i}` }))),
      "rules: has 513 rules; at most 512 are allowed",
    ],
    [
      "no default plan",
      (file) => delete file.defaultPlan,
      "defaultPlan: missing; name the plan of callers whose plan is unknown",
    ],
    [
      "a default plan that is not listed",
      set({ defaultPlan: "fre" }),
      'defaultPlan: unknown plan "fre"; the plans are "free", "pro" and "enterprise"',
    ],
    [
      "a default plan that is not text",
      set({ defaultPlan: 5 }),
      "defaultPlan: must be the name of a plan, but received 5",
    ],
    [
      "a default plan without plans",
      (file) => {
        delete file.plans;
        file.budgets = {};
      },
      "defaultPlan: needs plans",
    ],
    ["plans as text", set({ plans: "free" }), 'plans: must be a list of names, but received "free"'],
    ["a plan twice", (file) => file.plans.push("pro"), 'plans[3]: plan "pro" is listed twice'],
    [
      "a plan called override",
      (file) => file.plans.push("override"),
      'plans[3]: "override" is reserved for overrides; rename the plan',
    ],
    [
      "101 plans",
      (file) => file.plans.push(...Array.from({ length: 98 }, (_, i) => `p${i}`)),
      "plans: has more than 100 plans; use overrides",
    ],
    [
      "a budget with a long name",
      (file) => (file.budgets["a b"] = { ip: "1/s" }),
      'budgets["a b"]: the name "a b" must be 1 to 40 letters, digits, "_" or "-"',
    ],
    [
      "a budget without a limit",
      (file) => (file.budgets.x = {}),
      'budgets.x: a budget needs a limit, such as { "tenant": "100/m" }',
    ],
    [
      "three identities in a budget",
      (file) => (file.budgets.x = { ip: "1/s", user: "1/s", tenant: "1/s" }),
      'budgets.x: a budget has one identity, but this one has "ip", "user" and "tenant"; define 3 budgets',
    ],
    ["defaults as text", set({ defaults: "none" }), 'defaults: must be an object, but received "none"'],
    [
      "limits in defaults",
      set({ defaults: { limits: {} } }),
      'defaults.limits: unknown member "limits"; the members are "budgets", "mode", "onStoreError" and "refundIf"',
    ],
    [
      "an unknown budget in defaults",
      set({ defaults: { budgets: ["apii"] } }),
      'defaults.budgets[0]: unknown budget "apii"; the budgets are "address", "api" and "monthly"',
    ],
  ])("%s", (_, change, line) => expect(linesAfter(change)).toEqual([line]));

  it.each([
    [null, "null"],
    [undefined, "undefined"],
    [5, "5"],
    ["{}", '"{}"'],
    [[], "an array"],
    [() => 5, "a function"],
  ])("is not %s", (value, text) => {
    expect(linesOf(value)).toEqual([`: must be an object with rules and a fallback, but received ${text}`]);
  });
});
