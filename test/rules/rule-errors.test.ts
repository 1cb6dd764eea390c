/** Tests the messages for mistakes in the members of a rule. */
import { describe, expect, it } from "vitest";
import { type AnyFile, linesAfter } from "./rule-files.ts";

type Row = readonly [what: string, change: (file: AnyFile) => void, line: string];

const rule = (index: number, members: object) => (file: AnyFile) => void Object.assign(file.rules[index], members);

describe("rules", () => {
  it.each<Row>([
    ["a misspelt member", rule(3, { limit: {} }), 'rules[3].limit: unknown member "limit"; did you mean "limits"?'],
    [
      "an unknown member",
      (file) => (file.fallback.colour = "red"),
      'fallback.colour: unknown member "colour"; the members are "preset", "limits", "without", "budgets", "unlimited", "perPattern", "weight", "hold", "refundIf", "mode", "onStoreError", "action", "withClearance" and "penalty"',
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
    [
      "refundIf",
      rule(3, { refundIf: true }),
      'rules[3].refundIf: must be "failed" or "succeeded" or "reported", but received true',
    ],
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
      "a clearance that is an exemption",
      rule(3, { action: "challenge", budgets: [], withClearance: { clearance: "unlimited", ip: "unlimited" } }),
      "rules[3].withClearance: requests would be unlimited; add a limit per ip, network, client or global",
    ],
    [
      "a clearance without a challenge",
      rule(3, { withClearance: { client: "100/s" } }),
      'rules[3].withClearance: replaces nothing, because no limit of the rule has the action "challenge"',
    ],
    [
      "an invalid limit that a clearance repeats, reported once where it was written",
      rule(3, { limits: { ip: ["1/s", "1/x"] }, action: "challenge" }),
      'rules[3].limits.ip[1]: "1/x" is not a limit; write it like "10/s burst 50", "1000/d fixed", "5/15m log" or "unlimited"',
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
