/** RateLimit header fields: exact text, and checked with an independent structured-field parser. */
import fc from "fast-check";
import {
  combine,
  createLimiter,
  type Decision,
  type Denied,
  memoryRateLimiter,
  memoryStore,
  tokenBucket,
} from "sluice";
import { type HeaderMode, partitionKey, rateLimitHeaders, tooManyRequests } from "sluice/http";
import { parseList } from "structured-headers";
import { describe, expect, it } from "vitest";

const clock = { now: () => 1_800_000_000_000 };

function denial(parts: Partial<Denied> = {}): Denied {
  return {
    allowed: false,
    policy: "p",
    limit: 10,
    remaining: 0,
    resetAfterMs: 2000,
    nextAfterMs: 200,
    retryAfterMs: 200,
    ...parts,
  };
}

describe("rateLimitHeaders", () => {
  it("writes one policy in draft-8 syntax", () => {
    const limiter = memoryRateLimiter(tokenBucket("5/s", { burst: 10, name: "api" }), { clock });
    expect(rateLimitHeaders(limiter.consumeSync("k", 3), limiter.getPolicy())).toEqual({
      "RateLimit-Policy": '"api";q=10;w=2',
      RateLimit: '"api";r=7;t=1',
    });
  });

  it("lists every policy of a combination in order", () => {
    const store = memoryStore({ clock });
    const burst = createLimiter({ policy: { capacity: 100, tokensPerSecond: 100 / 60, name: "burst" }, store });
    const daily = createLimiter({
      policy: { algorithm: "fixed-window", limit: 5000, windowMs: "1d", name: "daily" },
      store,
    });
    const both = combine([burst, daily]);
    const headers = rateLimitHeaders(both.consumeSync("k"), both.getPolicies?.() ?? []);
    expect(headers["RateLimit-Policy"]).toBe('"burst";q=100;w=60, "daily";q=5000;w=86400');
    expect(headers.RateLimit).toMatch(/^"burst";r=99;t=1, "daily";r=4999;t=\d+$/);
  });

  it("omits t if the bucket is full", () => {
    const limiter = memoryRateLimiter({ capacity: 2, tokensPerSecond: 1, name: "full" }, { clock });
    expect(rateLimitHeaders(limiter.consumeSync("k", 0), limiter.getPolicy()).RateLimit).toBe('"full";r=2');
  });

  it("returns no fields if the numbers are unknown", () => {
    const limiter = memoryRateLimiter({ capacity: 2, tokensPerSecond: 1 }, { clock });
    const known = limiter.consumeSync("k");
    for (const unknown of [{ degraded: true }, { unknown: true }] as Partial<Decision>[]) {
      expect(rateLimitHeaders({ ...known, ...unknown } as Decision, limiter.getPolicy())).toEqual({});
    }
    expect(rateLimitHeaders(denial({ unavailable: true }), limiter.getPolicy())).toEqual({});
  });

  it("writes any name so that an independent parser returns it", () => {
    const printable = fc.string({ unit: fc.constantFrom(..." !\"#$%&\\'();=,{}~azAZ09"), minLength: 1, maxLength: 64 });
    fc.assert(
      fc.property(printable, fc.integer({ min: 1, max: 2 ** 40 }), fc.nat(1000), (name, capacity, cost) => {
        const limiter = memoryRateLimiter({ capacity, tokensPerSecond: "1000/s", name }, { clock });
        const decision = limiter.consumeSync("k", Math.min(cost, capacity));
        const headers = rateLimitHeaders(decision, limiter.getPolicy());
        const [[policyName, policy]] = parseList(headers["RateLimit-Policy"] ?? "") as [[string, Map<string, number>]];
        const [[quotaName, quota]] = parseList(headers.RateLimit ?? "") as [[string, Map<string, number>]];
        expect([policyName, quotaName]).toEqual([name, name]);
        expect(policy.get("q")).toBe(capacity);
        expect(policy.get("w")).toBe(Math.max(1, Math.ceil(limiter.getPolicy().windowMs / 1000)));
        expect(quota.get("r")).toBe(decision.remaining);
        expect(quota.get("t")).toBe(decision.nextAfterMs > 0 ? Math.ceil(decision.nextAfterMs / 1000) : undefined);
      }),
      { numRuns: 2000 },
    );
  });

  it("clamps numbers to the 15 digits of a structured-field integer", () => {
    const limiter = memoryRateLimiter({ algorithm: "fixed-window", limit: 4e15, windowMs: 1 }, { clock });
    const headers = rateLimitHeaders(limiter.consumeSync("k"), limiter.getPolicy());
    const [[, quota]] = parseList(headers.RateLimit ?? "") as [[string, Map<string, number>]];
    expect(quota.get("r")).toBe(999_999_999_999_999);
  });
});

describe("an invalid argument (issue 13)", () => {
  const limiter = memoryRateLimiter({ capacity: 1, tokensPerSecond: 1, name: "p" }, { clock });
  const allowed = limiter.consumeSync("k", 0);

  it.each([[tokenBucket("5/s")], [[tokenBucket("5/s")]], [{ capacity: 10, tokensPerSecond: 5 }], [null], [{}]])(
    "that is an unresolved policy (%o) throws an error that names getPolicy()",
    (policies) => {
      const message =
        "policies must be the resolved policies of a limiter: limiter.getPolicies?.() ?? limiter.getPolicy(), but received";
      expect(() => rateLimitHeaders(allowed, policies as never)).toThrow(message);
      expect(() => tooManyRequests(denial(), policies as never)).toThrow(message);
    },
  );

  it.each([[allowed], [undefined], [null], [true]])("that is not a denied decision (%o) throws", (decision) => {
    expect(() => tooManyRequests(decision as never, limiter.getPolicy())).toThrow(
      "decision must be a denied decision (check decision.allowed first), but received",
    );
  });

  it("that is not a header mode throws", () => {
    expect(() => rateLimitHeaders(allowed, limiter.getPolicy(), { mode: true as never })).toThrow(/mode, a list/);
  });
});

describe("header modes", () => {
  // The examples of the draft: `burst` has 7 of 100 left and more in 12 s, `daily` has 900 of 5000 left.
  const policies = [
    memoryRateLimiter({ algorithm: "fixed-window", limit: 100, windowMs: "60s", name: "burst" }).getPolicy(),
    memoryRateLimiter({ algorithm: "fixed-window", limit: 5000, windowMs: "1d", name: "daily" }).getPolicy(),
  ];
  const part = (policy: string, limit: number, remaining: number, ms: number): Decision => ({
    allowed: true,
    policy,
    limit,
    remaining,
    resetAfterMs: ms,
    nextAfterMs: ms,
  });
  const burst = part("burst", 100, 7, 12_000);
  const daily = part("daily", 5000, 900, 36_000_000);
  const both: Decision = { ...burst, parts: [burst, daily] };
  const fields = (mode: HeaderMode | HeaderMode[], more = {}) => rateLimitHeaders(both, policies, { mode, ...more });

  it.each<[HeaderMode, Record<string, string>]>([
    [
      "draft-8",
      {
        "RateLimit-Policy": '"burst";q=100;w=60, "daily";q=5000;w=86400',
        RateLimit: '"burst";r=7;t=12, "daily";r=900;t=36000',
      },
    ],
    ["draft-7", { "RateLimit-Policy": "100;w=60, 5000;w=86400", RateLimit: "limit=100, remaining=7, reset=12" }],
    [
      "draft-6",
      {
        "RateLimit-Policy": "100;w=60, 5000;w=86400",
        "RateLimit-Limit": "100",
        "RateLimit-Remaining": "7",
        "RateLimit-Reset": "12",
      },
    ],
    ["legacy", { "X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "7", "X-RateLimit-Reset": "1764000012" }],
  ])("include %s", (mode, expected) => {
    expect(fields(mode, { now: 1_764_000_000_000 })).toEqual(expected);
  });

  it("can be combined unless they use the same field names", () => {
    const now = 1_764_000_000_000;
    expect(fields(["draft-8", "legacy"], { now })).toEqual({ ...fields("draft-8"), ...fields("legacy", { now }) });
    expect(fields(["draft-6", "draft-7", "legacy"], { now })).toEqual({
      ...fields("draft-7"),
      ...fields("draft-6"),
      ...fields("legacy", { now }),
    });
    for (const clash of [["draft-8", "draft-7"], ["draft-6", "draft-8"], []] as HeaderMode[][]) {
      expect(() => fields(clash)).toThrow(expect.objectContaining({ code: "invalid-option", option: "headers" }));
    }
    for (const unknown of ["draft-5", "draft-9", "latest"]) {
      expect(() => fields(unknown as never)).toThrow("headers must be one of draft-8, draft-7, draft-6, legacy");
    }
  });

  it("write X-RateLimit-Reset as a Unix time or as seconds left", () => {
    expect(fields("legacy", { now: 1_764_000_000_001 })["X-RateLimit-Reset"]).toBe("1764000013");
    expect(fields("legacy", { resetFormat: "delta" })["X-RateLimit-Reset"]).toBe("12");
    const soon = Number(fields("legacy")["X-RateLimit-Reset"]) - Date.now() / 1000;
    expect(soon).toBeGreaterThan(11);
    expect(soon).toBeLessThan(14);
  });

  it("of older drafts prefer the longest wait among equals, and omit a policy with the same quota", () => {
    const [tie, longer] = [part("a", 5, 2, 1000), part("b", 5, 2, 9000)];
    const twins = [
      memoryRateLimiter({ algorithm: "fixed-window", limit: 5, windowMs: "1s", name: "a" }).getPolicy(),
      memoryRateLimiter({ algorithm: "fixed-window", limit: 5, windowMs: "9s", name: "b" }).getPolicy(),
    ];
    for (const parts of [
      [tie, longer],
      [longer, tie],
    ]) {
      const written = rateLimitHeaders({ ...(parts[0] as Decision), parts }, twins, { mode: "draft-7" });
      expect(written).toEqual({ "RateLimit-Policy": "5;w=9", RateLimit: "limit=5, remaining=2, reset=9" });
    }
  });

  it("of older drafts write the same reset as Retry-After on a denial", () => {
    const limiter = memoryRateLimiter({ capacity: 10, tokensPerSecond: 1, name: "p" }, { clock });
    limiter.consumeSync("k", 10);
    const denied = limiter.consumeSync("k", 4) as Denied;
    for (const mode of ["draft-6", "draft-7", "legacy"] as const) {
      const { headers } = tooManyRequests(denied, limiter.getPolicy(), { headers: { mode, resetFormat: "delta" } });
      expect(headers["Retry-After"]).toBe("4");
      expect(headers["RateLimit-Reset"] ?? headers["X-RateLimit-Reset"] ?? headers.RateLimit).toMatch(/(?:^|reset=)4$/);
    }
  });

  it("can report only the limiting policy", () => {
    expect(fields("draft-8", { report: "closest" })).toEqual({
      "RateLimit-Policy": '"burst";q=100;w=60',
      RateLimit: '"burst";r=7;t=12',
    });
  });

  it("write an escaped unit, and none for requests", () => {
    expect(fields("draft-8", { unit: "content-bytes" })["RateLimit-Policy"]).toBe(
      '"burst";q=100;qu="content-bytes";w=60, "daily";q=5000;qu="content-bytes";w=86400',
    );
    expect(fields("draft-8", { unit: "requests" })).toEqual(fields("draft-8"));
    expect(fields("draft-8", { unit: 'a"b' })["RateLimit-Policy"]).toContain('qu="a\\"b"');
    expect(() => fields("draft-8", { unit: "\r\nSet-Cookie: x" })).toThrow(/printable/);
  });

  it("write a partition key that does not reveal the key on both fields", () => {
    const written = fields("draft-8", { partitionKey: partitionKey("secret"), key: "user:42" });
    for (const name of ["RateLimit-Policy", "RateLimit"]) {
      const items = parseList(written[name] ?? "") as [string, Map<string, ArrayBuffer>][];
      expect(items).toHaveLength(2);
      for (const [, parameters] of items) expect(Buffer.from(parameters.get("pk") as ArrayBuffer).length).toBe(12);
      expect(written[name]).toContain("pk=:SqdVGOxU47NBnmXa:");
      expect(written[name]).not.toContain("42;");
    }
    expect(partitionKey("secret")("user:42")).toBe("SqdVGOxU47NBnmXa");
    expect(partitionKey("other")("user:42")).not.toBe("SqdVGOxU47NBnmXa");
    expect(() => partitionKey("")).toThrow(/secret/);
  });

  it("write the partition key of each policy if keys differ", () => {
    const hash = partitionKey("secret");
    const written = fields("draft-8", { partitionKey: hash, key: "ip:1", keys: ["ip:1", "user:42"] });
    expect(written.RateLimit).toBe(
      `"burst";r=7;t=12;pk=:${hash("ip:1")}:, "daily";r=900;t=36000;pk=:${hash("user:42")}:`,
    );
    expect(written["RateLimit-Policy"]).toMatch(/^"burst".*pk=:[^:]+:, "daily".*;pk=:SqdVGOxU47NBnmXa:$/);
  });

  it.each(["A", "AB", "ABC", "ABCDE", "AB=", "ABC==", "ABCD=", "====", "A===", "AB==CD==", ""])(
    "reject a partition key of an invalid base64 length: %j (issue 13)",
    (wrong) => {
      expect(() => fields("draft-8", { partitionKey: () => wrong, key: "k" })).toThrow(/base64/);
    },
  );

  it.each(["AB==", "ABC=", "ABCD", "ABCDEF+/", "SqdVGOxU47NBnmXa"])("accept a partition key in base64: %j", (right) => {
    const written = fields("draft-8", { partitionKey: () => right, key: "k" });
    expect(written.RateLimit).toContain(`;pk=:${right}:`);
    expect(parseList(written.RateLimit ?? "")).toHaveLength(2);
  });

  it("omit the windows of unknown policies, and escape any name", () => {
    const strange = { ...part('a"\r\nx: y\u00e9', 5, 2, 1000) };
    const written = rateLimitHeaders(strange, undefined as never);
    expect(written["RateLimit-Policy"]).toBe('"a\\"??x: y?";q=5');
    expect(parseList(written.RateLimit ?? "")).toHaveLength(1);
  });
});
