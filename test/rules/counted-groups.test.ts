/** Limits that are counted and not enforced, beside enforced ones: refunds, leases, shards, and what is reported. */
import { type Group, memoryStore, type Store } from "sluice";
import { rateLimit } from "sluice/fetch";
import { loadRules, type RulesOptions } from "sluice/rules";
import { describe, expect, test } from "vitest";

const IP = "203.0.113.7";
const FALLBACK = { limits: { ip: "1000/h" } };

/** What `onDecision` has received. */
interface Seen {
  readonly allowed: boolean;
  readonly key: string;
  readonly rule: string | undefined;
  readonly mode: string;
}

/** The argument of `onDecision`, as far as it is used here. */
interface Decided {
  readonly decision: { readonly allowed: boolean };
  readonly key: string;
  readonly rule?: string;
  readonly mode?: string;
}

/** Sends requests to a handler that responds with a status. Returns the status, and what `onDecision` has received. */
function app(data: object, options: RulesOptions = {}) {
  const rules = loadRules({ fallback: FALLBACK, ...data }, { facts: ["tenant", "account"], ...options });
  let seen: Seen[] = [];
  let status = 200;
  const handler = rateLimit({
    rules,
    facts: { tenant: () => "acme", account: (request: Request) => request.headers.get("X-Account") ?? "ada" },
    onDecision: ({ decision, key, rule, mode }: Decided) =>
      void seen.push({ allowed: decision.allowed, key, rule, mode: mode ?? "enforced" }),
  } as never)(() => new Response("ok", { status }));
  return async (path: string, responds = 200, headers = {}) => {
    seen = [];
    status = responds;
    const info = { remoteAddr: { hostname: IP } };
    const response = await (handler as (...args: unknown[]) => Promise<Response>)(
      new Request(`http://localhost${path}`, { headers }),
      info,
    );
    await response.text();
    // Refunds and settlements follow the end of the body.
    await new Promise((resolve) => setImmediate(resolve));
    const shadow = seen.find(({ mode }) => mode === "shadow");
    return { status: response.status, seen, shadow: shadow?.allowed };
  };
}

describe("limits of a shadow rule", () => {
  const trial = (limit: string, more: object) => ({
    budgets: { api: { ip: "3/h log" } },
    rules: [{ name: "trial", match: "/trial", limits: { account: limit, ip: "100/h" }, mode: "shadow", ...more }],
  });

  test("are refunded like others", async () => {
    const send = app(trial("1/h log", { refundIf: "failed" }));
    for (let i = 0; i < 5; i++) expect(await send("/trial", 500)).toMatchObject({ status: 500, shadow: true });
    expect(await send("/trial")).toMatchObject({ status: 200, shadow: true });
    expect(await send("/trial")).toMatchObject({ status: 200, shadow: false });
  });

  test("are not refunded if they were not taken", async () => {
    const limits = { account: "1/h log", ip: "2/h log" };
    const send = app(trial("", { refundIf: "failed", limits }));
    const as = (account: string) => ({ "X-Account": account });
    expect(await send("/trial", 200, as("ada"))).toMatchObject({ shadow: true });
    // The account denies, so nothing is taken from the address.
    for (let i = 0; i < 3; i++) expect(await send("/trial", 500, as("ada"))).toMatchObject({ shadow: false });
    expect(await send("/trial", 200, as("bob"))).toMatchObject({ shadow: true });
    expect(await send("/trial", 200, as("cleo"))).toMatchObject({ shadow: false });
  });

  test("release the lease of a request that an enforced limit denies", async () => {
    const send = app(trial("1 concurrent", { budgets: ["api"] }));
    for (let i = 0; i < 3; i++) expect(await send("/trial")).toMatchObject({ status: 200, shadow: true });
    for (let i = 0; i < 3; i++) expect(await send("/trial")).toMatchObject({ status: 429, shadow: true });
  });

  test("may be in other shards than the enforced ones", async () => {
    const store = shardedStore();
    const send = app(trial("1/h log", { budgets: ["api"], onStoreError: "throw" }), { store, localDenialMs: 0 });
    const results = [];
    for (let i = 0; i < 5; i++) results.push(await send("/trial"));
    expect(results.map(({ status, shadow }) => [status, shadow])).toEqual([
      [200, true],
      [200, false],
      [200, false],
      [429, false],
      [429, false],
    ]);
  });
});

describe("a decision on several limits", () => {
  test("has the key and the rule of the limiting one", async () => {
    const send = app({
      rules: [
        { name: "login", match: "/login", limits: { account: "2/h", ip: "50/h" } },
        { name: "page", match: "/:page", limits: { ip: "100/h", tenant: "3/h" } },
      ],
    });
    expect((await send("/home")).seen).toEqual([{ allowed: true, key: "tenant:acme", rule: "page", mode: "enforced" }]);
    // Some routers read it as "/login", others don't.
    const spelled = await send("/LOGIN");
    expect(spelled.seen).toMatchObject([{ allowed: true }]);
    await send("/LOGIN");
    expect((await send("/LOGIN")).seen).toEqual([
      { allowed: false, key: "account:ada", rule: "login", mode: "enforced" },
    ]);
  });
});

/** A memory store that behaves like a remote one in which every key is a shard. */
function shardedStore(): Store {
  const memory = memoryStore();
  return {
    consistency: "exact",
    shardOf: (key) => key,
    async apply(groups: readonly Group[]) {
      const keys = new Set(groups.flat().map(({ key }) => key));
      if (keys.size > 1) throw new Error(`one call for the shards ${[...keys]}`);
      return memory.apply(groups);
    },
    inspect: (policy, key) => memory.inspect(policy, key),
    dispose: () => memory.dispose(),
  };
}
