/** Tests the messages that the documentation lists, and those for mistakes in the file as a whole. */
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
      'rules[2].match: "POST login" is not a pattern; a path starts with "/": write "POST /login"',
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
