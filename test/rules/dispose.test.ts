/** What a rule set releases when it is disposed of: leases of its requests, and its watcher of the store. */
import { memoryStore } from "sluice";
import { loadRules, type RulesOptions } from "sluice/rules";
import { expect, test } from "vitest";
import { flakyStore } from "../flaky-store.ts";

const data = (limit: string, more: object = {}) => ({
  rules: [{ name: "slow", match: "/slow", limits: { ip: "100/h", tenant: limit } }],
  fallback: { limits: { ip: "100/h" } },
  ...more,
});
const request = { method: "GET", path: "/slow", ip: "203.0.113.7", facts: { tenant: "acme" } };
const setOf = (json: object, options: RulesOptions) => loadRules(json, { facts: ["tenant"], ...options });

test("dispose releases leases, also those of rules that were replaced and of overrides", async () => {
  const store = memoryStore();
  const overrides = { "tenant:acme": { "slow.tenant": "3 concurrent" } };
  const rules = setOf(data("1 concurrent"), { store });
  const other = setOf(data("1 concurrent"), { store });
  expect((await rules.hold(request)).allowed).toBe(true);
  expect((await other.hold(request)).allowed).toBe(false);
  await rules.replace(data("1 concurrent", { overrides }));
  for (let i = 0; i < 3; i++) expect((await rules.hold(request)).allowed).toBe(true);
  await rules.replace(data("1 concurrent", { caseSensitive: true }));
  expect((await rules.hold(request)).allowed).toBe(false);
  await rules.dispose();
  expect((await other.hold(request)).allowed).toBe(true);
  await other.replace(data("1 concurrent", { overrides }));
  expect((await other.hold(request)).parts?.at(-1)).toMatchObject({ policy: "slow.tenant@override", remaining: 2 });
});

test("dispose ends the events of the store", async () => {
  const events: string[] = [];
  const store = flakyStore();
  const rules = setOf(data("9/h"), { store, onEvent: ({ type }) => void events.push(type) });
  const other = setOf(data("9/h"), { store, onEvent: () => {} });
  await rules.dispose();
  store.mode = "fail";
  for (let i = 0; i < 10; i++) await other.consume(request);
  expect(events).toEqual([]);
});
