/** What rules hold for requests that fail because the store does. */
import { memoryStore, type Store } from "sluice";
import { loadRules } from "sluice/rules";
import { afterEach, beforeEach, expect, test, vi } from "vitest";

const data = {
  rules: [
    {
      name: "slow",
      match: "/slow",
      limits: { ip: "100/h", account: "1 concurrent lease 1h" },
      action: { account: "flag" },
      onStoreError: "throw",
    },
  ],
  fallback: { limits: { ip: "100/h" } },
};
const request = { method: "GET", path: "/slow", ip: "203.0.113.7", facts: { account: "ada" } };

beforeEach(() => void vi.useFakeTimers({ now: 1_800_000_000_000 }));
afterEach(() => void vi.useRealTimers());

/** A remote store. `reply` is called when it has applied the groups. */
function remoteStore(more: Partial<Store>, reply: (keys: string[]) => void): Store {
  const memory = memoryStore();
  return {
    consistency: "exact",
    async apply(groups) {
      const decisions = await memory.apply(groups);
      reply(groups.flat().map(({ key }) => key));
      return decisions;
    },
    inspect: (policy, key) => memory.inspect(policy, key),
    dispose: () => memory.dispose(),
    ...more,
  };
}

test.each<[string, Partial<Store>]>([
  ["in one call", {}],
  ["of another shard", { shardOf: (key: string) => key }],
])("a counted lease %s is released if the request fails", async (_, more) => {
  let fails = true;
  const store = remoteStore(more, (keys) => {
    if (fails && keys.some((key) => key.startsWith("ip:"))) throw new Error("on purpose");
  });
  const rules = loadRules(data, { facts: ["account"], store, onEvent: () => {} });
  await expect(rules.hold(request)).rejects.toMatchObject({ code: "store-unavailable" });
  fails = false;
  // Releases are retried in the background.
  await vi.advanceTimersByTimeAsync(10_000);
  const decision = await rules.hold(request);
  expect(decision).toMatchObject({ allowed: true, hold: { amount: 1 } });
  expect(decision).not.toHaveProperty("limited");
});
