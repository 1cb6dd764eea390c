/** Rules are checked and replaced in slices: requests are decided by the old ones meanwhile. */
import { createLimiter, memoryStore } from "sluice";
import { rateLimit } from "sluice/fetch";
import { createObserver } from "sluice/observe";
import { checkRules, checkRulesInSlices, loadRules } from "sluice/rules";
import { describe, expect, test, vi } from "vitest";
import { longestSliceOf } from "./slice-times.ts";

const MAX_SLICE_MS = 20;
const fallback = { limits: { ip: "50/h" } };

/** 512 rules with 20 patterns each, half of them with buckets per pattern, and 100 000 overrides. */
function largeFile(limit: string) {
  const rules = Array.from({ length: 512 }, (_, i) => ({
    name: `r${i}`,
    match: Array.from({ length: 20 }, (_, j) => `GET|POST /v${i}/a${j}/:id/b/c${j}/*`),
    limits: { ip: limit, tenant: "5/m", "ip+tenant": ["1/s", "9/h fixed"] },
    perPattern: i % 2 === 0,
  }));
  const overrides = Object.fromEntries(
    Array.from({ length: 100_000 }, (_, i) => [
      `tenant:t${(i * 7919) % 100_000}`,
      { "r1.tenant": `${(i % 50) + 1}/m` },
    ]),
  );
  return { rules, fallback, overrides };
}

/** 100 rules, which need several slices. */
const someRules = (limit: string) => ({
  ...largeFile(limit),
  rules: largeFile(limit).rules.slice(0, 100),
  overrides: {},
});
const smallFile = (limit: string) => ({ rules: [{ name: "a", match: "/a", limits: { ip: limit } }], fallback });

describe("checkRulesInSlices", () => {
  test("of 512 rules with 20 patterns each and 100 000 overrides has no slice of more than 20 ms", async () => {
    const file = largeFile("10/s");
    expect(await longestSliceOf(() => () => checkRulesInSlices(file), MAX_SLICE_MS)).toBeLessThanOrEqual(MAX_SLICE_MS);
  }, 60_000);

  test.each([
    ["valid rules", someRules("9/h")],
    ["many problems", { ...someRules("nine"), overrides: { "tenant:t1": { r1: "1/m" } } }],
    ["a few rules", smallFile("5/h")],
    ["null", null],
  ])("returns what checkRules returns for %s", async (_, file) => {
    expect(await checkRulesInSlices(file)).toEqual(checkRules(file));
  });
});

describe("replace", () => {
  test("of 512 rules with 20 patterns each and 100 000 overrides has no slice of more than 20 ms", async () => {
    const rules = loadRules(largeFile("10/s"), { facts: ["tenant"] });
    let limit = "";
    const longest = await longestSliceOf((attempt) => {
      limit = `${11 + attempt}/s`;
      const file = largeFile(limit);
      return () => rules.replace(file);
    }, MAX_SLICE_MS);
    expect(longest).toBeLessThanOrEqual(MAX_SLICE_MS);
    expect(rules.find("GET", "/v3/a1/x/b/c1").policies[0]).toMatchObject({ name: "r3.ip", limit });
    await rules.dispose();
  }, 60_000);

  test("of a few rules needs no further task", async () => {
    const rules = loadRules(smallFile("5/h"), { facts: [] });
    vi.spyOn(performance, "now").mockReturnValue(0);
    const schedule = vi.spyOn(globalThis, "setImmediate");
    await rules.replace(smallFile("6/h"));
    expect(schedule).not.toHaveBeenCalled();
    vi.restoreAllMocks();
    expect(rules.find("GET", "/a").policies[0]?.limit).toBe("6/h");
  });

  test("decides requests by the old rules until it is done", async () => {
    const rules = loadRules(smallFile("1/h fixed"), { facts: ["tenant"] });
    const take = () => rules.consume({ method: "GET", path: "/a", ip: "203.0.113.7" });
    const replaced = rules.replace({
      ...someRules("9/h fixed"),
      rules: [...smallFile("2/h fixed").rules, ...someRules("9/h").rules],
    });
    expect(await take()).toMatchObject({ allowed: true, limit: 1 });
    expect((await take()).allowed).toBe(false);
    await replaced;
    expect(await take()).toMatchObject({ allowed: true, limit: 2 });
  });

  test("called twice at once applies both in their order", async () => {
    const rules = loadRules(smallFile("1/h"), { facts: ["tenant"] });
    const [first, invalid, last] = [
      rules.replace(someRules("9/h")),
      rules.replace({}),
      rules.replace(smallFile("3/h")),
    ];
    await expect(invalid).rejects.toThrow(/rules: must be a list of rules/);
    expect(await first).toContain('Rule "a" was removed.');
    expect(await last).toContain('Rule "a" was added.');
    expect(rules.find("GET", "/a").policies[0]?.limit).toBe("3/h");
  });

  test("keeps or releases every name if it is rejected", async () => {
    const store = memoryStore();
    const rules = loadRules(smallFile("1/h"), { facts: ["tenant"], store });
    const other = createLimiter({
      policy: { algorithm: "fixed-window", limit: 1, windowMs: 1, name: "r99.ip" },
      store,
    });
    const next = someRules("9/h");
    await expect(
      rules.replace({ ...next, rules: next.rules.map((rule) => ({ ...rule, perPattern: false })) }),
    ).rejects.toThrow(/Another policy on this store is named "r99\.ip"/);
    const claim = (name: string) => () =>
      createLimiter({ policy: { algorithm: "fixed-window", limit: 1, windowMs: 7, name }, store });
    expect(claim("a.ip")).toThrow(/named "a\.ip"/);
    expect(claim("r1.ip")).not.toThrow();
    await other.dispose();
  });

  test("is rejected if the rules are disposed of meanwhile, and claims no name", async () => {
    const store = memoryStore();
    const rules = loadRules(smallFile("1/h"), { facts: ["tenant"], store });
    const replaced = rules.replace(someRules("9/h"));
    const rejected = expect(replaced).rejects.toMatchObject({ code: "disposed" });
    await rules.dispose();
    await rejected;
    for (const name of ["a.ip", "r1.ip", "fallback.ip"]) {
      createLimiter({ policy: { algorithm: "fixed-window", limit: 1, windowMs: 7, name }, store });
    }
  });

  test("is rejected if middleware that lacks a fact is mounted meanwhile", async () => {
    const rules = loadRules(smallFile("1/h"), { facts: ["tenant"] });
    const replaced = rules.replace(someRules("9/h"));
    const rejected = expect(replaced).rejects.toThrow(/facts\.tenant: missing a function/);
    rateLimit({ rules, observer: createObserver() } as never);
    await rejected;
    expect(rules.find("GET", "/a").policies[0]?.limit).toBe("1/h");
  });
});
