/** Rules on Redis Cluster: limits on one key are one command; limits on three keys are all or nothing. */
import { redisStore } from "sluice/redis";
import { loadRules, type RuleSet } from "sluice/rules";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { openClient } from "./client-kind.ts";
import { clients } from "./clients.ts";
import { spyOn } from "./intercept.ts";
import { type Servers, topologies } from "./topologies.ts";

const IP = "203.0.113.7";
/** In three slots of the cluster, together with the address. */
const FACTS = { tenant: "acme", account: "ada" };

let servers: Servers;
let sets = 0;
beforeAll(async () => {
  servers = await topologies.Cluster();
});
afterAll(() => servers?.stop());

describe.each(["ioredis 6", "redis 6"])("rules on Cluster, %s", (name) => {
  const open = clients[name]?.Cluster;
  if (!open) throw new Error(`${name} has no client for Cluster`);

  /** Rule sets on connections of their own, with buckets that the sets of other tests don't have. */
  const setsOf = async (count: number, data: object) => {
    const prefix = `rules ${sets++}`;
    return Promise.all(
      Array.from({ length: count }, async () => {
        const { client, calls } = spyOn(await openClient({ open: () => open(servers) }, onTestFinished));
        const store = redisStore(client);
        const options = { facts: ["tenant", "account"], localDenialMs: 0, deadlineMs: "20s" };
        return { rules: loadRules(data, { store, prefix, ...options }), store, calls };
      }),
    );
  };
  const take = (rules: RuleSet) => rules.consume({ method: "GET", path: "/read", ip: IP, facts: FACTS });
  const fallback = { limits: { ip: "1000/h" } };
  /** `throw` instead of the fallback, which would admit requests without Redis. */
  const rule = (limits: object) => ({
    rules: [{ name: "read", match: "/read", limits, onStoreError: "throw" }],
    fallback,
  });

  /** What remains in the buckets of a caller, read with a request that is denied and so takes nothing. */
  const remainingOf = async (rules: RuleSet) => {
    const { allowed, parts } = await take(rules);
    expect(allowed).toBe(false);
    return parts?.map(({ remaining }) => remaining);
  };

  it("send one command if all limits are counted per one identity, also with a budget and a shadow rule", async () => {
    const [set] = await setsOf(1, {
      budgets: { address: { ip: "20/h log" } },
      defaults: { budgets: ["address"], onStoreError: "throw" },
      rules: [
        { name: "read", match: "/read", limits: { ip: ["9/h", "20/d fixed"] } },
        { name: "trial", match: "/trial", limits: { ip: ["9/h", "1/h log"] }, mode: "shadow" },
      ],
      fallback,
    });
    const { rules, calls } = set as NonNullable<typeof set>;
    await take(rules);
    calls.length = 0;
    expect((await take(rules)).parts).toHaveLength(3);
    expect(calls.map(({ keys }) => keys.length)).toEqual([3]);
    calls.length = 0;
    expect((await rules.consume({ method: "GET", path: "/trial", ip: IP })).allowed).toBe(true);
    expect(calls.map(({ keys }) => keys.length)).toEqual([3]);
  });

  it("take nothing if the last of three limits on three keys denies", async () => {
    const [set] = await setsOf(1, rule({ ip: "30/h", tenant: "20/h fixed", account: "3/h log" }));
    const { rules, store } = set as NonNullable<typeof set>;
    const slots = [`ip:${IP}`, "tenant:acme", "account:ada"].map((key) => store.shardOf(key));
    expect(new Set(slots).size, "slots").toBe(3);
    for (let i = 0; i < 3; i++) expect((await take(rules)).allowed).toBe(true);
    for (let i = 0; i < 5; i++) {
      expect(await take(rules)).toMatchObject({ allowed: false, policy: "read.account", rule: "read" });
    }
    expect(await remainingOf(rules)).toEqual([27, 17, 0]);
  });

  it("never admit more than a limit to simultaneous requests over two connections", async () => {
    const pair = await setsOf(2, rule({ ip: "300/h", tenant: "40/h fixed", account: "25/h log" }));
    const decisions = await Promise.all(
      Array.from({ length: 200 }, (_, i) => take((pair[i % 2] as (typeof pair)[0]).rules)),
    );
    const admitted = decisions.filter(({ allowed }) => allowed).length;
    expect(admitted).toBeLessThanOrEqual(25);
    expect(admitted).toBeGreaterThan(0);
    // What was taken by requests that were denied in the end is refunded.
    const [first] = pair as [(typeof pair)[0]];
    let later = 0;
    for (let i = 0; i < 30; i++) if ((await take(first.rules)).allowed) later++;
    expect(admitted + later).toBe(25);
    expect(await remainingOf(first.rules)).toEqual([275, 15, 0]);
  });
});
