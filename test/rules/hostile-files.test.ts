/** Tests files that are meant to break the loader: each ends in issues or in rules, within 100 ms. */
import { describe, expect, it } from "vitest";
import { parseRules } from "../../src/rules/parse-rules.ts";
import { cpuTimeOf } from "./cpu-time.ts";
import { type AnyFile, linesAfter, linesOf, parsed, validFile } from "./rule-files.ts";

const nested = (depth: number, wrap: (value: unknown) => unknown): unknown => {
  let value: unknown = "1/s";
  for (let i = 0; i < depth; i++) value = wrap(value);
  return value;
};
const MB = 1_000_000;

describe("data is inert", () => {
  it.each<[string, (file: AnyFile) => void]>([
    ["depth 100 in a limit", (file) => (file.rules[3].limits.client = nested(100, (value) => ({ ip: value })))],
    ["depth 100 000 in a list", (file) => (file.rules[3].match = nested(100_000, (value) => [value]))],
    ["1 MB as a limit", (file) => (file.rules[3].limits.client = "1".repeat(MB))],
    ["1 MB of spaces in a rate", (file) => (file.rules[3].limits.client = `1/${" ".repeat(MB)}!`)],
    ["1 MB of spaces in a hold", (file) => (file.rules[3].hold = `${" ".repeat(MB)}`)],
    ["1 MB as a name", (file) => (file.rules[3].name = "a".repeat(MB))],
    ["1 MB as a pattern", (file) => (file.rules[3].match = `/${"a/".repeat(MB / 2)}`)],
    ["1 MB as a method", (file) => (file.rules[3].match = `${"A|".repeat(MB / 2)}`)],
    ["1 MB as an identity", (file) => (file.rules[3].limits["a+".repeat(MB / 2)] = "1/s")],
    ["1 MB as a member", (file) => (file.rules[3]["~/".repeat(MB / 2)] = 1)],
    ["1 MB as a budget with 200 problems", (file) => (file.budgets["b".repeat(MB)] = { ip: new Array(200).fill("x") })],
    [
      "valid: 1 MB as the key of an override",
      (file) => (file.overrides = { [`ip:${"a".repeat(MB)}`]: { address: "1/s" } }),
    ],
    ["a million items", (file) => (file.rules[3].match = new Array(MB).fill("/a"))],
    ["a list with 4 billion holes", (file) => (file.rules = new Array(2 ** 32 - 1))],
    ["holes", (file) => (file.rules[12] = file.rules[0])],
    ["lone surrogates", (file) => Object.assign(file.rules[3], { name: "\ud800", when: { "\udfff": "\ud800" } })],
    ["a cycle", (file) => (file.rules[3].limits = file)],
    ["a list in itself", (file) => file.rules.push(file.rules)],
    [
      "a thousand misspelt limits",
      (file) => {
        file.rules = Array.from({ length: 500 }, (_, i) => ({
          name: `rule-number-${i}`,
          match: `/${i}`,
          preset: "mfa",
        }));
        file.overrides = {};
        for (let i = 0; i < 1000; i++) file.overrides[`ip:${i}`] = { [`rule-numbre-${i}.ip`]: "1/s" };
      },
    ],
    ["a getter that throws", (file) => Object.defineProperty(file.rules[3], "limits", { enumerable: true, get: fail })],
    ["a proxy without keys", (file) => (file.rules[3] = new Proxy({}, { ownKeys: fail }))],
    ["a proxy that was revoked", (file) => (file.fallback = revoked())],
    ["a proxy with endless members", (file) => (file.rules[3].limits = endless())],
  ])("%s", (what, change) => {
    const file = validFile();
    change(file);
    const { issues } = parseRules(file);
    // A long key is valid.
    if (!what.startsWith("valid: ")) expect(issues?.length).toBeGreaterThan(0);
    for (const { path, pointer, message } of issues ?? []) {
      expect([path, pointer, message].every((text) => typeof text === "string")).toBe(true);
      expect(message.length).toBeLessThan(2000);
    }
    expect(cpuTimeOf(() => parseRules(file), 100)).toBeLessThan(100);
  });

  it("reads getters once, and reports those that throw", () => {
    let reads = 0;
    const file = validFile();
    Object.defineProperty(file.rules[3], "weight", { enumerable: true, get: () => ++reads });
    Object.defineProperty(file.rules[4], "limits", { enumerable: true, get: fail });
    expect(linesOf(file)[0]).toBe("rules[4].limits: can't be read, because reading it throws an exception");
    expect(reads).toBe(1);
  });

  it("treats __proto__ of JSON as any other name", () => {
    const file = JSON.parse(`{
      "plans": ["__proto__", "constructor"], "defaultPlan": "__proto__",
      "budgets": { "__proto__": { "ip": { "__proto__": "5/s", "constructor": "unlimited" } } },
      "rules": [{ "name": "__proto__", "match": "/a", "limits": { "ip": "1/s" }, "budgets": ["__proto__"] }],
      "fallback": "unlimited", "overrides": { "ip:1": { "__proto__": "2/s" } } }`);
    const { rules, budgets, overrides, data } = parsed(file);
    expect(rules[0]?.budgets).toEqual(budgets);
    expect(budgets[0]?.limits[0]?.spec).toEqual(
      new Map([
        ["__proto__", expect.objectContaining({ text: "5/s" })],
        ["constructor", expect.objectContaining({ text: "unlimited" })],
      ]),
    );
    expect(overrides.get("ip:1")?.get("__proto__")).toMatchObject({ text: "2/s" });
    expect(JSON.stringify(data)).toBe(JSON.stringify(file));
    expect(Object.prototype).not.toHaveProperty("ip");
  });

  it.each(["__proto__", "constructor", "toString"])("finds no plan, budget, preset or limit called %s", (name) => {
    const change = (file: AnyFile) => {
      file.rules[3].preset = name;
      file.rules[4].budgets = [name];
      Object.defineProperty(file.rules[5].limits, name, { value: { [name]: "1/s" }, enumerable: true });
    };
    const lines = linesAfter(change);
    expect(lines[0]).toMatch(`rules[3].preset: unknown preset "${name}"; `);
    expect(lines[1]).toMatch(`rules[4].budgets[0]: unknown budget "${name}"; `);
    expect(lines[2]).toMatch(name === "__proto__" ? "is not an identity" : `unknown plan "${name}"; `);
  });

  it("ignores members of prototypes", () => {
    const rule = Object.assign(Object.create({ limits: { ip: "1/s" } }), { name: "x", match: "/x" });
    expect(linesAfter((file) => file.rules.push(rule))).toEqual([
      "rules[10].limits: requests would be unlimited; add a limit per ip, network, client or global",
    ]);
  });

  it("parses 100 000 overrides in linear time", () => {
    const withOverrides = (count: number, textOf: (i: number) => string) => {
      const file = validFile();
      file.overrides = Object.fromEntries(
        Array.from({ length: count }, (_, i) => [`tenant:t${i}`, { api: textOf(i) }]),
      );
      return file;
    };
    const few = ["1000/m burst 500", "100/s", "unlimited"];
    const large = withOverrides(100_000, (i) => few[i % 3] as string);
    expect(parsed(large).overrides.size).toBe(100_000);
    expect(cpuTimeOf(() => parseRules(large), 1000)).toBeLessThan(1000);
    // All of them wrong: the list of issues is full after the first 100.
    const wrong = withOverrides(100_000, (i) => `${i} per minute`);
    expect(cpuTimeOf(() => parseRules(wrong), 1000)).toBeLessThan(1000);
  });
});

function fail(): never {
  throw new Error("a getter that throws");
}

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

/** An object whose members are objects like itself, never the same. */
function endless(): object {
  const descriptor = { enumerable: true, configurable: true };
  return new Proxy({}, { get: endless, ownKeys: () => ["ip", "user"], getOwnPropertyDescriptor: () => descriptor });
}
