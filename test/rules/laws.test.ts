/** Tests the laws that are checked when rules are loaded, on every plan. */
import { describe, expect, it } from "vitest";
import { type AnyFile, linesAfter, parsedAfter } from "./rule-files.ts";

const rule = (index: number, members: object) => (file: AnyFile) => void Object.assign(file.rules[index], members);
const byPlan = (free: string, pro: string, enterprise: string) => ({ free, pro, enterprise });
const UNLIMITED = "would be unlimited; add a limit per ip, network, client or global";

describe("law 1: the first rule that matches applies", () => {
  const after = (first: object, second: object) =>
    linesAfter((file) => {
      Object.assign(file.rules[4], first);
      Object.assign(file.rules[9], second);
    });

  it("rejects a pattern that an earlier rule hides", () => {
    expect(after({ match: "/v1/*" }, { match: ["GET /v2", "GET /v1/a"] })).toEqual([
      'rules[9].match[1]: unreachable, because rules[4] "r4" matches all of its requests first',
    ]);
  });

  it("allows it after a rule with a condition", () => {
    expect(after({ match: "/v1/*", when: { bot: "likely" } }, { match: "GET /v1/a" })).toEqual([]);
  });

  it("rejects a pattern that its own rule hides", () => {
    expect(after({}, { match: ["/v1/*", "GET /v1/a"] })).toEqual([
      "rules[9].match[1]: unreachable, because another pattern of the rule matches all of its requests first",
    ]);
  });

  it("rejects a pattern that overlaps more than 32 others", () => {
    const change = (file: AnyFile) => {
      const [rule] = file.rules;
      const literals = Array.from({ length: 6 }, (_, i) => [0, 1, 2, 3, 4, 5].map((j) => (i === j ? "a" : ":x")));
      const pairs = literals.flatMap((one, i) =>
        literals.slice(i + 1).map((two) => one.map((part, k) => (two[k] === "a" ? "a" : part))),
      );
      const triples = pairs.flatMap((one) =>
        [0, 1, 2, 3, 4, 5].filter((k) => one[k] !== "a").map((k) => one.map((part, j) => (j === k ? "a" : part))),
      );
      const paths = [...new Set([...triples, ...pairs, ...literals].map((parts) => `/${parts.join("/")}`))];
      file.rules = paths.map((match, i) => ({ ...rule, name: `p${i}`, match }));
    };
    const lines = linesAfter(change);
    expect(lines.length).toBeGreaterThan(0);
    for (const line of lines)
      expect(line).toMatch(/^rules\[\d+\]\.match: overlaps \d+ other patterns; at most 32 are allowed$/);
  });

  it("allows it before", () => expect(after({ match: "GET /v1/a" }, { match: "/v1/*" })).toEqual([]));
});

describe("law 2: no request is unlimited by accident", () => {
  it.each(["ip", "network", "client", "global", "ip+network"])("accepts a limit per %s", (per) => {
    expect(linesAfter(rule(7, { limits: { [per]: "10/s" } }))).toEqual([]);
  });

  it.each([
    ["user", "a user"],
    ["apiKey", "an apiKey"],
    ["ip+account", "an account"],
    ["tenant+user", "a tenant"],
  ])("rejects a limit per %s alone", (per, without) => {
    expect(linesAfter(rule(7, { limits: { [per]: "10/s" } }))).toEqual([
      `rules[7].limits: requests without ${without} ${UNLIMITED}`,
    ]);
  });

  it("names each identity that all limits need", () => {
    expect(linesAfter(rule(7, { limits: { tenant: "1/s", account: "1/s" } }))).toEqual([
      `rules[7].limits: requests without a tenant and an account ${UNLIMITED}`,
    ]);
  });

  it("rejects a rule and a fallback without limits", () => {
    const change = (file: AnyFile) => {
      file.rules[7] = { name: "none", match: "/none" };
      file.fallback = {};
    };
    expect(linesAfter(change)).toEqual([
      `rules[7].limits: requests ${UNLIMITED}`,
      `fallback.limits: requests ${UNLIMITED}`,
    ]);
  });

  it("accepts a budget of all callers, own or by default", () => {
    expect(linesAfter(rule(7, { limits: { tenant: "10/s" }, budgets: ["address"] }))).toEqual([]);
    const change = (file: AnyFile) => {
      file.defaults = { budgets: ["address"] };
      file.rules[7].limits = { tenant: "10/s" };
    };
    expect(linesAfter(change)).toEqual([]);
  });

  it("rejects a rule that leaves the default budgets out", () => {
    const change = (file: AnyFile) => {
      file.defaults = { budgets: ["address"] };
      Object.assign(file.rules[7], { limits: { tenant: "10/s" }, budgets: [] });
    };
    expect(linesAfter(change)).toEqual([`rules[7].limits: requests without a tenant ${UNLIMITED}`]);
  });

  it("is checked on every plan", () => {
    const limits = (ip: object) => rule(7, { limits: { ip, tenant: "10/s" } });
    expect(linesAfter(limits(byPlan("1/s", "2/s", "3/s")))).toEqual([]);
    expect(linesAfter(limits(byPlan("1/s", "2/s", "unlimited")))).toEqual([
      `rules[7].limits: requests on plan "enterprise" without a tenant ${UNLIMITED}`,
    ]);
    expect(linesAfter(limits(byPlan("unlimited", "unlimited", "unlimited")))).toEqual([
      `rules[7].limits: requests without a tenant ${UNLIMITED}`,
    ]);
    expect(linesAfter(rule(7, { limits: { ip: byPlan("1/s", "unlimited", "1/s") } }))).toEqual([
      `rules[7].limits: requests on plan "pro" ${UNLIMITED}`,
    ]);
  });

  it("accepts an exemption", () => {
    const change = (file: AnyFile) => {
      file.rules[7] = { name: "health", match: "GET /healthz", unlimited: true };
      file.fallback = "unlimited";
    };
    expect(linesAfter(change)).toEqual([]);
    const { rules, fallback } = parsedAfter(change);
    expect(rules[7]).toMatchObject({ isUnlimited: true, limits: [], budgets: [] });
    expect(fallback).toMatchObject({ name: "fallback", path: "fallback", isUnlimited: true });
  });
});

describe("law 4: at most 14 charges for a rule", () => {
  const list = (count: number, text: unknown = "10/s") => Array.from({ length: count }, () => text);

  it("counts own limits and those of budgets", () => {
    const change = (own: number) => (file: AnyFile) => {
      file.budgets.list = { ip: list(10) };
      Object.assign(file.rules[7], { limits: { client: list(own) }, budgets: ["list"] });
    };
    expect(linesAfter(change(4))).toEqual([]);
    expect(linesAfter(change(5))).toEqual([
      "rules[7].limits: 15 limits would apply to one request; with budgets, at most 14 are allowed",
    ]);
  });

  it("is checked on every plan", () => {
    const change = (pro: string) =>
      rule(7, { limits: { client: [...list(14), byPlan("unlimited", pro, "unlimited")] } });
    expect(linesAfter(change("unlimited"))).toEqual([]);
    expect(linesAfter(change("1/s"))).toEqual([
      'rules[7].limits: 15 limits would apply to one request on plan "pro"; with budgets, at most 14 are allowed',
    ]);
  });

  it("counts the limits of callers with a clearance", () => {
    const change = (count: number) =>
      rule(7, {
        limits: { client: list(10), ip: "1/s" },
        action: { ip: "challenge" },
        withClearance: { ip: list(count) },
      });
    // Each is counted per IP address, as written, and per clearance.
    expect(linesAfter(change(2))).toEqual([]);
    expect(linesAfter(change(3))).toEqual([
      "rules[7].limits: 16 limits would apply to one request; with budgets, at most 14 are allowed",
    ]);
  });
});

describe("law 7: every weight fits", () => {
  const weight = (weight: number, budget: unknown) => (file: AnyFile) => {
    file.budgets.b = { ip: budget };
    Object.assign(file.rules[8], { weight, budgets: ["b"] });
  };

  it("compares it with the capacity of every budget on every plan", () => {
    expect(linesAfter(weight(30, "10/s burst 30"))).toEqual([]);
    expect(linesAfter(weight(31, "10/s burst 30"))).toEqual([
      'rules[8].weight: 31 is more than the capacity of budget "b" (30)',
    ]);
    expect(linesAfter(weight(31, byPlan("100/s", "30/d fixed", "unlimited")))).toEqual([
      'rules[8].weight: 31 is more than the capacity of budget "b" on plan "pro" (30)',
    ]);
    expect(linesAfter(weight(31, ["100/s", "30/d fixed"]))).toEqual([
      'rules[8].weight: 31 is more than the capacity of budget "b.2" (30)',
    ]);
  });

  it("ignores budgets that count a fact or requests in flight, and own limits", () => {
    expect(linesAfter(weight(31, ["30/d of items", "5 concurrent"]))).toEqual([]);
    expect(linesAfter(rule(8, { weight: 31, limits: { ip: "30/d fixed" } }))).toEqual([]);
  });

  it("is checked in default budgets", () => {
    const change = (file: AnyFile) => {
      file.defaults = { budgets: ["api"] };
      file.rules[8].weight = 31;
    };
    expect(linesAfter(change)).toEqual([
      'rules[8].weight: 31 is more than the capacity of budget "api" on plan "free" (30)',
    ]);
  });
});
