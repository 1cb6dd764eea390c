/** Rules that are replaced while they are in force. */
import { memoryStore } from "sluice";
import { loadRules } from "sluice/rules";
import { fakeClock } from "sluice/testing";
import { describe, expect, test } from "vitest";

const IP = "203.0.113.7";

function rulesWith(limit: string, more: object = {}) {
  return {
    rules: [{ name: "read", match: "/read", limits: { ip: limit }, ...more }],
    fallback: { limits: { ip: "50/h" } },
  };
}

function setOf(data: object) {
  const clock = fakeClock();
  const store = memoryStore({ clock });
  const rules = loadRules(data, { store, facts: ["tenant", "plan"] });
  const take = async (path = "/read", facts = {}) => rules.consume({ method: "GET", path, ip: IP, facts });
  return { clock, store, rules, take };
}

describe("replace", () => {
  test("keeps buckets whose window is unchanged, also if the limit changes", async () => {
    const { rules, take } = setOf(rulesWith("5/h fixed"));
    for (let i = 0; i < 4; i++) await take();
    expect(await rules.replace(rulesWith("7/h fixed"))).toEqual([
      'Rule "read": limits changed.',
      'read.ip: the limit changed from "5/h fixed" to "7/h fixed"; its buckets are kept.',
    ]);
    expect(await take()).toMatchObject({ allowed: true, limit: 7, remaining: 2 });
    await rules.replace(rulesWith("5/h fixed"));
    expect(await take()).toMatchObject({ allowed: false, limit: 5, remaining: 0 });
  });

  test("starts new buckets for a new window, fill time or algorithm, and lists them", async () => {
    const { rules, take } = setOf(rulesWith("2/h fixed"));
    await take();
    await take();
    expect((await take()).allowed).toBe(false);
    const words = "it starts new buckets, because the algorithm, window or fill time changed.";
    expect(await rules.replace(rulesWith("2/d fixed"))).toContain(
      `read.ip: changed from "2/h fixed" to "2/d fixed"; ${words}`,
    );
    expect((await take()).remaining).toBe(1);
    expect(await rules.replace(rulesWith("2/d log"))).toContain(
      `read.ip: changed from "2/d fixed" to "2/d log"; ${words}`,
    );
    expect((await take()).remaining).toBe(1);
    expect(await rules.replace(rulesWith("2/h fixed"))).toContain(
      `read.ip: changed from "2/d log" to "2/h fixed"; ${words}`,
    );
    // The first bucket is found as it was.
    expect((await take()).allowed).toBe(false);
  });

  test("changes nothing if the new rules are invalid", async () => {
    const { rules, take } = setOf(rulesWith("5/h fixed"));
    const { version } = rules;
    const invalid = { ...rulesWith("5 per hour") };
    await expect(rules.replace(invalid)).rejects.toThrow(/^rules\[0\]\.limits\.ip: "5 per hour" is not a limit/);
    await expect(
      rules.replace(rulesWith("5/h", { when: { plan: "x" }, limits: { ip: "5/h", team: "5/h" } })),
    ).rejects.toThrow(/rules\[0\]\.limits\.team: unknown fact "team"/);
    expect(rules.version).toBe(version);
    expect(await take()).toMatchObject({ allowed: true, policy: "read.ip" });
  });

  test("describes added, removed, reordered and changed rules", async () => {
    const rule = (name: string, more = {}) => ({ name, match: `/${name}`, limits: { ip: "5/h" }, ...more });
    const data = (...rules: object[]) => ({ rules, fallback: { limits: { ip: "50/h" } } });
    const { rules } = setOf(data(rule("a"), rule("b"), rule("c")));
    expect(await rules.replace(data(rule("a"), rule("b"), rule("c")))).toEqual([]);
    expect(await rules.replace(data(rule("c"), rule("b", { weight: 2, mode: "shadow" }), rule("d")))).toEqual([
      'Rule "a" was removed.',
      'Rule "b": weight, mode changed.',
      'Rule "d" was added.',
      "The order of the rules changed.",
    ]);
    expect(await rules.replace({ ...data(rule("c")), caseSensitive: true })).toEqual([
      'Rule "b" was removed.',
      'Rule "d" was removed.',
      "caseSensitive changed.",
    ]);
  });

  test("lists limits that start new buckets under another name", async () => {
    const plans = { plans: ["free", "pro"], defaultPlan: "free" };
    const split = { ip: { free: "5/h fixed", pro: "9/h fixed" } };
    const { rules } = setOf({ ...rulesWith("5/h fixed"), overrides: { "ip:203.0.113.7": { "read.ip": "7/h fixed" } } });
    const changes = await rules.replace({
      ...plans,
      ...rulesWith("", { limits: split }),
      overrides: { "ip:203.0.113.7": { "read.ip": "7/d fixed" } },
    });
    expect(changes).toContain('read.ip@free: "5/h fixed" starts new buckets.');
    expect(changes).toContain('read.ip@pro: "9/h fixed" starts new buckets.');
    expect(changes).toContain(
      'read.ip of ip:203.0.113.7: changed from "7/h fixed" to "7/d fixed"; it starts new buckets.',
    );
    expect(await rules.replace(rulesWith("5/h fixed", { perPattern: true }))).toContain(
      'read.ip: "5/h fixed" starts new buckets.',
    );
  });

  test("lets a request that has started keep its rules", async () => {
    let release: (tenant: string) => void = () => {};
    const { rules } = setOf({
      rules: [{ name: "read", match: "/read", limits: { ip: "5/h", tenant: "3/h" } }],
      fallback: { limits: { ip: "50/h" } },
    });
    const { rateLimit } = await import("sluice/fetch");
    const tenant = () => new Promise<string>((resolve) => (release = resolve));
    const handler = rateLimit({ rules, facts: { tenant } })(
      (_request: Request, _environment: object) => new Response("ok"),
    );
    const response = handler(new Request("http://localhost/read"), { remoteAddr: { hostname: IP } });
    await rules.replace({ rules: [], fallback: { limits: { ip: "50/h" } } });
    release("acme");
    expect((await response).headers.get("RateLimit-Policy")).toContain('"read.tenant";q=3');
  });

  test("admits no more than one bucket in 60 reloads of the limit", async () => {
    const { rules, take, clock } = setOf(rulesWith("100/h burst 100"));
    let admitted = 0;
    let elapsed = 0;
    for (let i = 0; i < 60; i++) {
      // Capacity and rate in proportion, so that the fill time of an hour is unchanged.
      const size = 50 + ((i * 7) % 51);
      await rules.replace(rulesWith(`${size}/h burst ${size}`));
      for (let n = 0; n < 20; n++) if ((await take()).allowed) admitted++;
      clock.advance(1000);
      elapsed += 1000;
    }
    expect(admitted).toBeLessThanOrEqual(100 + Math.floor((100 * elapsed) / 3_600_000));
    expect(admitted).toBeGreaterThanOrEqual(50);
  });
});

describe("all or nothing", () => {
  test("leaves two buckets as they were if the third denies", async () => {
    const { rules, store, take } = setOf({
      rules: [{ name: "read", match: "/read", limits: { ip: "9/h", tenant: "5/h fixed", global: "2/h log" } }],
      fallback: { limits: { ip: "50/h" } },
    });
    const facts = { tenant: "acme" };
    await take("/read", facts);
    await take("/read", facts);
    const inspect = () => rules.find("GET", "/read").policies.length && JSON.stringify(rawStates(store));
    const before = inspect();
    for (let i = 0; i < 10; i++) {
      expect(await take("/read", facts)).toMatchObject({ allowed: false, policy: "read.global" });
    }
    expect(inspect()).toBe(before);
  });
});

/** Every bucket of a memory store, as it is kept. */
function rawStates(store: object): unknown {
  const { policies } = store as { policies: Map<string, { shards: { keys: string[]; cells: unknown }[] }> };
  return [...policies].map(([id, { shards }]) => [
    id,
    shards.map(({ keys, cells }) => [keys, [...(cells as number[])]]),
  ]);
}
