/** Tasks that use rules on Durable Objects: all or nothing in one object, and in several. */
import { durableObjectStore } from "sluice/cloudflare";
import { loadRules } from "sluice/rules";
import type { Tasks } from "../tasks.ts";
import { countAllowed, type Env, FreshNamespace } from "./namespace.ts";

const IP = "203.0.113.7";
const fallback = { limits: { global: "1000/h" } };

/** The rows of every object that was called. */
async function rowsOf(namespace: FreshNamespace): Promise<string> {
  const rows = await Promise.all(
    [...namespace.names]
      .sort()
      .map(async (name) => [name, await namespace.object(name).sql("SELECT * FROM sluice_buckets_1")]),
  );
  return JSON.stringify(rows);
}

export const rulesTasks: Tasks<Env> = {
  /** Three limits of which the last one denies: of one key in one object, or of three keys in three objects. */
  async rulesDenial({ OBJECTS }, { keys }: { keys: "one" | "three" }) {
    const namespace = new FreshNamespace(OBJECTS);
    const store = durableObjectStore(namespace, { shards: "per-key" });
    const limits =
      keys === "one"
        ? { tenant: ["9/h", "5/h fixed", "2/h log"], ip: "1000/h" }
        : { tenant: "9/h", account: "5/h fixed", client: "2/h log" };
    const data = { rules: [{ name: "read", match: "/read", limits }], fallback };
    const rules = loadRules(data, { store, facts: ["tenant", "account"], localDenialMs: 0 });
    const take = () =>
      rules.consume({ method: "GET", path: "/read", ip: IP, facts: { tenant: "acme", account: "ada", user: "42" } });
    const allowed = [(await take()).allowed, (await take()).allowed];
    const before = await rowsOf(namespace);
    const denied = [];
    for (let i = 0; i < 5; i++) denied.push((await take()).policy);
    return {
      allowed,
      denied: [...new Set(denied)],
      objects: namespace.names.size,
      isUnchanged: (await rowsOf(namespace)) === before,
    };
  },

  /** All limits of one key: one call of one object. */
  async rulesOneKey({ OBJECTS }) {
    const namespace = new FreshNamespace(OBJECTS);
    const store = durableObjectStore(namespace);
    const data = {
      rules: [{ name: "read", match: "/read", limits: { ip: ["50/h", "100/d fixed"] }, budgets: ["api"] }],
      budgets: { api: { ip: "1000/d" } },
      fallback,
    };
    const rules = loadRules(data, { store, facts: [], localDenialMs: 0 });
    const before = namespace.calls;
    const decisions = [];
    for (let i = 0; i < 60; i++) decisions.push(await rules.consume({ method: "GET", path: "/read", ip: IP }));
    return { admitted: countAllowed(decisions), callsPerRequest: (namespace.calls - before) / 60 };
  },

  /** 200 requests at once, whose three keys are in three objects: never more than the smallest limit. */
  async rulesContention({ OBJECTS }) {
    const namespace = new FreshNamespace(OBJECTS);
    const store = durableObjectStore(namespace, { shards: "per-key" });
    const data = {
      rules: [{ name: "read", match: "/read", limits: { tenant: "80/h", account: "60/h", client: "50/h" } }],
      fallback,
    };
    const rules = loadRules(data, { store, facts: ["tenant", "account"], localDenialMs: 0 });
    const facts = { tenant: "acme", account: "ada", user: "42" };
    const decisions = await Promise.all(
      Array.from({ length: 200 }, () => rules.consume({ method: "GET", path: "/read", ip: IP, facts })),
    );
    const admitted = countAllowed(decisions);
    // What was taken and refunded is left in the buckets.
    const after = await rules.consume({ method: "GET", path: "/read", ip: IP, facts });
    return { admitted, remaining: after.parts?.map(({ remaining }) => remaining) };
  },
};
