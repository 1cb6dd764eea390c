/** Tests the messages for mistakes in overrides. */
import { describe, expect, it } from "vitest";
import { type AnyFile, linesAfter } from "./rule-files.ts";

describe("overrides", () => {
  const override = (key: string, limits: unknown) => (file: AnyFile) => {
    Object.assign(file.rules[3], { name: "ai", budgets: ["api"], weight: 20, hold: "1m" });
    file.rules[3].limits = { client: "10/s", tenant: "1000/d fixed of tokens", "ip+account": "5/m" };
    file.overrides = { [key]: limits };
  };
  it.each([
    ["tenant:acme", { api: "20/s", "ai.tenant": "5000/d fixed of tokens" }],
    ["tenant:a+b", { api: "20/s" }],
    ["user:42", { "ai.client": "1/s" }],
    ["key:acme", { "ai.client": "1/s" }],
    ["ip:203.0.113.7", { "ai.client": "1/s", "fallback.ip": "unlimited", address: "100/s" }],
    ["ip:203.0.113.7+account:ada%2b", { "ai.ip+account": "1/s" }],
    ["tenant:acme", {}],
  ])("accepts %s", (key, limits) => expect(linesAfter(override(key, limits))).toEqual([]));

  it.each<[string, string, unknown, string]>([
    ["an unknown limit", "tenant:a", { apii: "1/s" }, '.apii: unknown limit "apii"; did you mean "api"?'],
    [
      "another unknown limit",
      "tenant:a",
      { "report.of.tenant": "1/s" },
      '["report.of.tenant"]: unknown limit "report.of.tenant"; use the name of a budget, or that of a rule and an identity, such as "search.client"',
    ],
    [
      "a limit with its plan",
      "tenant:a",
      { "api@pro": "1/s" },
      '["api@pro"]: unknown limit "api@pro"; use the name of a budget, or that of a rule and an identity, such as "search.client"',
    ],
    [
      "a key of another kind",
      "user:a",
      { api: "20/s" },
      '.api: limit "api" is counted per tenant, so the key must be like "tenant:..."',
    ],
    [
      "a key without a value",
      "tenant:",
      { api: "20/s" },
      '.api: limit "api" is counted per tenant, so the key must be like "tenant:..."',
    ],
    [
      "a key that is not a client",
      "net:a",
      { "ai.client": "1/s" },
      '["ai.client"]: limit "ai.client" is counted per client, so the key must be like "user:..." or "key:..." or "ip:..."',
    ],
    [
      "half of a joined key",
      "ip:a",
      { "ai.ip+account": "1/s" },
      '["ai.ip+account"]: limit "ai.ip+account" is counted per ip+account, so the key must be like "ip:...+account:..."',
    ],
    [
      "requests instead of tokens",
      "tenant:a",
      { "ai.tenant": "1/s" },
      '["ai.tenant"]: must count tokens, as the limit does; write it with "of tokens"',
    ],
    [
      "tokens instead of requests",
      "tenant:a",
      { api: "20/s of tokens" },
      '.api: must count requests, as the limit does; remove "of tokens"',
    ],
    [
      "less than a weight",
      "tenant:a",
      { api: "19/s" },
      '.api: its capacity (19) is less than the weight of rule "ai" (20)',
    ],
    [
      "a queue for what is held",
      "tenant:a",
      { "ai.tenant": "10/s queue 20 of tokens" },
      '["ai.tenant"]: can\'t hold tokens of "10/s queue 20 of tokens": a queue does not support holds; use "burst" or another algorithm',
    ],
    [
      "limits by plan",
      "tenant:a",
      { api: { free: "1/s" } },
      '.api: must be a limit such as "10/s burst 50", but received an object',
    ],
    ["a limit without a name", "tenant:a", "20/s", ': must be an object of limits by their names, but received "20/s"'],
  ])("%s", (_, key, limits, line) => {
    expect(linesAfter(override(key, limits))).toEqual([`overrides["${key}"]${line}`]);
  });

  it("accept one key for the limits that all callers share", () => {
    const global = (key: string) => (file: AnyFile) => {
      file.rules[3].limits = { global: "100/s" };
      file.overrides = { [key]: { "r3.global": "1/s" } };
    };
    expect(linesAfter(global("global"))).toEqual([]);
    expect(linesAfter(global("ip:1"))).toEqual([
      'overrides["ip:1"]["r3.global"]: limit "r3.global" is counted per global, so the key must be "global"',
    ]);
  });
});
