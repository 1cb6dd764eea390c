/** Holds and concurrency limits of rules, without a server. */
import { memoryStore } from "sluice";
import { loadRules } from "sluice/rules";
import { fakeClock } from "sluice/testing";
import { describe, expect, test } from "vitest";

const IP = "203.0.113.7";

/** A rule set on a clock that moves only when a test advances it. */
function rulesOn(data: object, options: object = {}) {
  const clock = fakeClock();
  const store = memoryStore({ clock });
  const rules = loadRules(data, { store, facts: ["tenant", "plan", "account", "items", "tokens", "bot"], ...options });
  return { clock, store, rules };
}

const FALLBACK = { limits: { ip: "1000/h fixed" } };

describe("holds of rules", () => {
  const data = {
    rules: [
      { name: "ai", match: "/ai", limits: { ip: "100/h", tenant: "1000/h of tokens" }, hold: "5m" },
      { name: "slow", match: "/slow", limits: { ip: "2 concurrent" } },
      { name: "both", match: "/both", limits: { ip: "1 concurrent lease 10s", tenant: "100/h of tokens" }, hold: "5m" },
    ],
    fallback: FALLBACK,
  };
  const request = (path: string, tokens = 0) => ({ method: "GET", path, ip: IP, facts: { tenant: "acme", tokens } });

  test("hold the estimate and charge the actual amount", async () => {
    const { rules } = rulesOn(data);
    const decision = await rules.hold(request("/ai", 600));
    if (!decision.allowed) throw new Error("denied");
    expect(await rules.hold(request("/ai", 600))).toMatchObject({ allowed: false, policy: "ai.tenant" });
    await decision.hold.settle({ tokens: 100 });
    const next = await rules.hold(request("/ai", 900));
    expect(next).toMatchObject({ allowed: true, rule: "ai" });
    if (next.allowed) await next.hold.cancel();
    expect(await rules.hold(request("/ai", 901))).toMatchObject({ allowed: false });
  });

  test.each([[{}], [[]], [null]])("reject %j as an actual amount, which would charge the estimate", async (actual) => {
    const { rules } = rulesOn(data);
    const decision = await rules.hold(request("/ai", 600));
    if (!decision.allowed) throw new Error("denied");
    await expect(decision.hold.settle(actual as never)).rejects.toMatchObject({ code: "invalid-cost" });
    await decision.hold.settle({ tokens: 0 });
    expect(await rules.hold(request("/ai", 1000))).toMatchObject({ allowed: true });
  });

  test("charge the actual amount of an estimate of 0, which a client may have chosen", async () => {
    const { rules } = rulesOn(data);
    const decision = await rules.hold(request("/ai", 0));
    if (!decision.allowed) throw new Error("denied");
    await decision.hold.settle({ tokens: 1000 });
    expect(await rules.hold(request("/ai", 0))).toMatchObject({ allowed: false, policy: "ai.tenant" });
    const free = await rules.hold({ ...request("/ai", 0), facts: { tenant: "other", tokens: 0 } });
    if (!free.allowed) throw new Error("denied");
    expect(await free.hold.settle()).toMatchObject({ settled: true, remaining: 1000 });
  });

  test("limit concurrency, and free the slot", async () => {
    const { rules } = rulesOn(data);
    const first = await rules.hold(request("/slow"));
    const second = await rules.hold(request("/slow"));
    expect([first.allowed, second.allowed, (await rules.hold(request("/slow"))).allowed]).toEqual([true, true, false]);
    if (first.allowed) await first.hold.settle();
    expect((await rules.hold(request("/slow"))).allowed).toBe(true);
  });

  test("end leases and amounts at their own times", async () => {
    const { rules, clock } = rulesOn(data);
    expect((await rules.hold(request("/both", 40))).allowed).toBe(true);
    expect((await rules.hold(request("/both", 40))).allowed).toBe(false);
    clock.advance(10_000);
    const second = await rules.hold(request("/both", 40));
    expect(second).toMatchObject({ allowed: true });
    if (second.allowed) await second.hold.settle({ tokens: 10 });
    expect((await rules.hold(request("/both", 51))).allowed).toBe(false);
    expect((await rules.hold(request("/both", 50))).allowed).toBe(true);
  });

  test("are renewed with another amount, which is not that of a lease beside it", async () => {
    const { rules, clock } = rulesOn(data);
    const decision = await rules.hold(request("/both", 40));
    if (!decision.allowed) throw new Error("denied");
    clock.advance(9000);
    expect(await decision.hold.renew({ amount: 70 })).toMatchObject({ allowed: true });
    clock.advance(9000);
    expect(await rules.hold(request("/both", 1))).toMatchObject({ allowed: false, policy: "both.ip" });
    expect(await decision.hold.renew({ amount: 101 })).toMatchObject({ allowed: false, policy: "both.tenant" });
    expect(await decision.hold.settle()).toMatchObject({ settled: true });
    // The renewed amount is charged; 100 per hour are less than one in 18 s.
    expect(await rules.hold(request("/both", 31))).toMatchObject({ allowed: false, policy: "both.tenant" });
    expect(await rules.hold(request("/both", 30))).toMatchObject({ allowed: true });
  });

  test("are empty where no limit that holds applies to the caller, or only a shadow limit that is exceeded", async () => {
    const { rules } = rulesOn({
      rules: [
        { name: "user", match: "/user", limits: { ip: "100/h", user: "1 concurrent" } },
        { name: "tenant", match: "/tenant", limits: { ip: "100/h", tenant: "9/h of tokens" }, hold: "5m" },
        { name: "shadow", match: "/shadow", limits: { ip: "1 concurrent" }, mode: "shadow" },
        { name: "exempt", match: "/exempt", unlimited: true },
      ],
      fallback: FALLBACK,
    });
    const hold = (path: string) => rules.hold({ method: "GET", path, ip: IP, facts: { tokens: 5 } });
    expect((await hold("/shadow")).allowed).toBe(true);
    for (const path of ["/user", "/tenant", "/shadow", "/exempt"]) {
      const decision = await hold(path);
      if (!decision.allowed) throw new Error("denied");
      expect(decision).toMatchObject({ rule: path.slice(1), hold: { amount: 0 } });
      expect(await decision.hold.renew()).toMatchObject({ allowed: true });
      expect(await decision.hold.settle()).toMatchObject({ settled: false });
      expect(await decision.hold.cancel()).toMatchObject({ settled: false });
      if (path !== "/user" && path !== "/shadow") await decision.hold.settle({ tokens: 7 });
    }
  });

  test("are refused by consume, and hold refuses rules without them", async () => {
    const { rules } = rulesOn(data);
    const unsupported = { code: "unsupported" };
    await expect(rules.consume(request("/ai", 1))).rejects.toMatchObject(unsupported);
    await expect(rules.consume(request("/slow"))).rejects.toMatchObject(unsupported);
    await expect(rules.hold(request("/other"))).rejects.toMatchObject(unsupported);
  });
});
