/** Tests the examples of the seed documents, with their numbers, through the public API in memory. */
import { memoryRateLimiter, memoryStore, type Policy, type SyncRateLimiter } from "sluice";
import { type AbuseOptions, abuse, type ChallengeProvider, challenge, cloudflareBots } from "sluice/abuse";
import { idempotent, rateLimit } from "sluice/fetch";
import { memoryIdempotencyStore } from "sluice/idempotency";
import { suggestPolicy } from "sluice/observe";
import { defineRules, type RuleRequest, type RuleSet } from "sluice/rules";
import { describe, expect, test } from "vitest";

/** A clock that moves only when a test advances it. */
function manualClock(start = 1_800_000_000_000) {
  let now = start;
  return {
    now: () => now,
    advance(ms: number) {
      now += ms;
    },
  };
}

function limiterWithClock(policy: Policy, start?: number) {
  const clock = manualClock(start);
  return { clock, limiter: memoryRateLimiter(policy, { clock }) };
}

/** How many of `tries` requests for one key are allowed now. */
function allowedOf(tries: number, limiter: SyncRateLimiter, key = "client"): number {
  let allowed = 0;
  for (let i = 0; i < tries; i++) if (limiter.consumeSync(key).allowed) allowed++;
  return allowed;
}

describe("a token bucket of 10 at 5 per second (seed 000)", () => {
  const policy: Policy = { capacity: 10, tokensPerSecond: 5 };

  test("allows the first 10 of 11 simultaneous requests", () => {
    const { limiter } = limiterWithClock(policy);
    const allowed = Array.from({ length: 11 }, () => limiter.consumeSync("client").allowed);
    expect(allowed).toEqual([...new Array(10).fill(true), false]);
  });

  test("has 5 tokens one second after it was empty", () => {
    const { limiter, clock } = limiterWithClock(policy);
    expect(limiter.consumeSync("client", 10)).toMatchObject({ allowed: true, remaining: 0 });
    clock.advance(1000);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: true, remaining: 4 });
  });

  test("allows exactly 2 requests 400 ms after it was empty", () => {
    const { limiter, clock } = limiterWithClock(policy);
    limiter.consumeSync("client", 10);
    clock.advance(400);
    expect(allowedOf(10, limiter)).toBe(2);
  });

  test("loses no fraction of a token in steps of 1 ms", () => {
    const { limiter, clock } = limiterWithClock(policy);
    limiter.consumeSync("client", 10);
    let allowed = 0;
    for (let ms = 0; ms < 1000; ms++) {
      clock.advance(1);
      allowed += allowedOf(1, limiter);
    }
    expect(allowed).toBe(5);
  });

  test("allows a retry after 200 ms when it is empty, and not 1 ms earlier", () => {
    const { limiter, clock } = limiterWithClock(policy);
    limiter.consumeSync("client", 10);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 200 });
    clock.advance(199);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: false, retryAfterMs: 1 });
    clock.advance(1);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: true, remaining: 0 });
  });

  test("holds at most 10 after a minute without requests", async () => {
    const { limiter, clock } = limiterWithClock(policy);
    limiter.consumeSync("client", 8);
    clock.advance(60_000);
    expect(await limiter.peek("client")).toMatchObject({ remaining: 10, resetAfterMs: 0 });
    expect(allowedOf(20, limiter)).toBe(10);
  });
});

describe("a token bucket of 10 at 1 per second (seed 003)", () => {
  const create = () => limiterWithClock({ capacity: 10, tokensPerSecond: 1 }).limiter;

  test("allows a first request, leaves 9 and returns no retryAfterMs", async () => {
    const decision = await create().consume("user:1", 1);
    expect(decision).toMatchObject({ allowed: true, remaining: 9 });
    expect(decision).not.toHaveProperty("retryAfterMs");
  });

  test("denies the 11th request with a retryAfterMs of one second", async () => {
    const limiter = create();
    for (let i = 0; i < 10; i++) expect((await limiter.consume("user:1", 1)).allowed).toBe(true);
    expect(await limiter.consume("user:1", 1)).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 1000 });
  });

  test("leaves 7 after a cost of 3", async () => {
    expect(await create().consume("user:1", 3)).toMatchObject({ allowed: true, remaining: 7 });
  });

  test("allows 10 of 15 concurrent requests", async () => {
    const limiter = create();
    const decisions = await Promise.all(Array.from({ length: 15 }, () => limiter.consume("user:1", 1)));
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(10);
  });

  test("never allows a cost above the capacity and takes nothing", async () => {
    const limiter = create();
    expect(await limiter.consume("user:1", 11)).toMatchObject({ allowed: false, remaining: 10, retryAfterMs: null });
    expect(await limiter.consume("user:1", 10)).toMatchObject({ allowed: true, remaining: 0 });
  });

  test("limits each key separately", async () => {
    const limiter = create();
    expect(allowedOf(11, limiter, "user:1")).toBe(10);
    expect(await limiter.consume("user:2", 1)).toMatchObject({ allowed: true, remaining: 9 });
  });
});

describe("several policies (seed 003)", () => {
  test("have separate buckets for one key", async () => {
    const clock = manualClock();
    const cheap = memoryRateLimiter({ capacity: 10, tokensPerSecond: 1 }, { clock });
    const expensive = memoryRateLimiter({ capacity: 5, tokensPerSecond: 1 }, { clock });
    for (let i = 0; i < 10; i++) expect((await cheap.consume("user:1", 1)).allowed).toBe(true);
    expect((await cheap.consume("user:1", 1)).allowed).toBe(false);
    expect(await expensive.consume("user:1", 1)).toMatchObject({ allowed: true, remaining: 4 });
  });

  test("count separately with a shared clock", async () => {
    const clock = manualClock();
    const calls = memoryRateLimiter({ capacity: 100, tokensPerSecond: 50 }, { clock });
    const reports = memoryRateLimiter({ capacity: 10, tokensPerSecond: 2 }, { clock });
    expect(await calls.consume("api:user:1", 1)).toMatchObject({ allowed: true, remaining: 99 });
    expect(await reports.consume("report:user:1", 5)).toMatchObject({ allowed: true, remaining: 5 });
  });
});

describe("a sliding log of 100 per 60 seconds (seed 004)", () => {
  const policy: Policy = { algorithm: "sliding-log", limit: 100, windowMs: 60_000 };

  test("denies the 101st request until the oldest expires, and not 1 ms longer", () => {
    const { limiter, clock } = limiterWithClock(policy);
    // One request per 100 ms: the first expires after 60 s, of which 9.9 s have passed.
    for (let i = 0; i < 100; i++) {
      if (i > 0) clock.advance(100);
      expect(limiter.consumeSync("client")).toMatchObject({ allowed: true, remaining: 99 - i });
    }
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: false, remaining: 0, retryAfterMs: 50_100 });
    clock.advance(50_099);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: false, retryAfterMs: 1 });
    clock.advance(1);
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: true, remaining: 0 });
    // That replaced the first request. The second expires 100 ms later.
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: false, retryAfterMs: 100 });
  });

  test("allows no second burst at the start of a minute", () => {
    const minute = 60_000;
    const { limiter, clock } = limiterWithClock(policy, 30_000_000 * minute + 59_000);
    expect(allowedOf(150, limiter)).toBe(100);
    clock.advance(1000);
    expect(allowedOf(150, limiter)).toBe(0);
    clock.advance(58_999);
    expect(allowedOf(150, limiter)).toBe(0);
    clock.advance(1);
    expect(allowedOf(150, limiter)).toBe(100);
  });

  test("allows 100 where a fixed window allows 200", () => {
    const minute = 60_000;
    const { limiter, clock } = limiterWithClock({ ...policy, algorithm: "fixed-window" }, 30_000_000 * minute + 59_000);
    expect(allowedOf(150, limiter)).toBe(100);
    clock.advance(1000);
    expect(allowedOf(150, limiter)).toBe(100);
  });
});

describe("rules of an API (seed 002)", () => {
  const clock = manualClock();
  const ip = "203.0.113.7";
  const fallback = { limits: { ip: "2/s burst 20" } } as const;

  /** How many of `tries` simultaneous requests the rules allow. */
  async function allowedBy<F extends string>(
    rules: RuleSet<F>,
    tries: number,
    request: { method?: string; path: string; ip?: string; facts?: NonNullable<RuleRequest<F>["facts"]> },
  ): Promise<number> {
    const decisions = await Promise.all(
      Array.from({ length: tries }, () => rules.consume({ method: "GET", ip, ...request })),
    );
    return decisions.filter(({ allowed }) => allowed).length;
  }
  const inMemory = () => ({ store: memoryStore({ clock }) });

  test("allow an anonymous caller 50 at once and 5 per second, per IP address", async () => {
    const rules = defineRules({ rules: [], fallback: { preset: "anonymous" } }, inMemory());
    expect(await allowedBy(rules, 60, { path: "/products" })).toBe(50);
    clock.advance(1000);
    expect(await allowedBy(rules, 60, { path: "/products" })).toBe(5);
    expect(await allowedBy(rules, 60, { path: "/products", ip: "203.0.113.8" })).toBe(50);
  });

  test("don't limit users who are logged in by the bucket of their IP address", async () => {
    const rules = defineRules(
      {
        rules: [{ name: "user", match: "/*", when: { kind: "user" }, limits: { client: "16/s burst 160" } }],
        fallback: { preset: "anonymous" },
      },
      inMemory(),
    );
    expect(await allowedBy(rules, 60, { path: "/products" })).toBe(50);
    expect(await allowedBy(rules, 200, { path: "/products", facts: { kind: "user", user: "ada" } })).toBe(160);
  });

  test("limit payments more tightly than products, in buckets of their own", async () => {
    const rules = defineRules(
      {
        rules: [
          { name: "payments", match: "POST /payments", preset: "payments" },
          { name: "products", match: "GET /products", preset: "public-api" },
        ],
        fallback,
      },
      inMemory(),
    );
    expect(await allowedBy(rules, 60, { method: "POST", path: "/payments" })).toBe(5);
    expect(await allowedBy(rules, 60, { path: "/products" })).toBe(50);
    clock.advance(1000);
    expect(await allowedBy(rules, 60, { method: "POST", path: "/payments" })).toBe(0);
    expect(await allowedBy(rules, 60, { path: "/products" })).toBe(10);
  });

  test("allow 5 to 10 seconds of refill at once, for a refill of 16 per second", async () => {
    for (const capacity of [5 * 16, 10 * 16] as const) {
      const limit = `16/s burst ${capacity}` as const;
      const rules = defineRules(
        { rules: [{ name: "api", match: "/*", limits: { client: limit } }], fallback },
        inMemory(),
      );
      const facts = { apiKey: "busiest" };
      expect(await allowedBy(rules, 200, { path: "/x", facts })).toBe(capacity);
      clock.advance(1000);
      expect(await allowedBy(rules, 200, { path: "/x", facts })).toBe(16);
    }
  });

  test("admit no second burst of an API key at 12:00:01 with a limit of 100 per second", async () => {
    const rules = defineRules(
      { rules: [{ name: "hooks", match: "POST /hooks", limits: { client: "100/s log" } }], fallback },
      inMemory(),
    );
    const hooks = { method: "POST", path: "/hooks", facts: { apiKey: "partner" } };
    clock.advance(1999 - (clock.now() % 1000));
    expect(await allowedBy(rules, 140, hooks)).toBe(100);
    clock.advance(2);
    expect(await allowedBy(rules, 180, hooks)).toBe(0);
  });

  test("count 100 reads and 100 writes per second separately", async () => {
    const rules = defineRules(
      {
        rules: [
          { name: "read", match: "GET /v1/*", limits: { client: "100/s" } },
          { name: "write", match: "POST|PATCH|DELETE /v1/*", limits: { client: "100/s" } },
        ],
        fallback,
      },
      inMemory(),
    );
    expect(await allowedBy(rules, 150, { path: "/v1/charges" })).toBe(100);
    expect(await allowedBy(rules, 150, { method: "POST", path: "/v1/charges" })).toBe(100);
    expect(await allowedBy(rules, 1, { method: "DELETE", path: "/v1/charges/7" })).toBe(0);
  });

  test("separate fifty endpoints, ten tenants of each and three plans", async () => {
    const plans = ["free", "pro", "enterprise"] as const;
    const match = Array.from({ length: 50 }, (_, i) => `GET /v1/endpoint-${i}`);
    const tenant = { free: "2/d", pro: "5/d", enterprise: "9/d" } as const;
    const rules = defineRules(
      {
        plans,
        defaultPlan: "free",
        rules: [{ name: "api", match, perPattern: true, limits: { global: "1000/s", tenant } }],
        fallback,
      },
      inMemory(),
    );
    for (const path of match.map((pattern) => pattern.slice("GET ".length))) {
      for (let i = 0; i < 10; i++) {
        const allowed = await Promise.all(
          plans.map((plan) => allowedBy(rules, 10, { path, facts: { tenant: `${plan}-${i}`, plan } })),
        );
        expect(allowed, path).toEqual([2, 5, 9]);
      }
    }
  });
});

describe("a request that is sent twice (seed 002)", () => {
  test("is charged one token and has one effect if both have the same idempotency key", async () => {
    const limiter = memoryRateLimiter({ capacity: 10, tokensPerSecond: 5 }, { clock: manualClock() });
    let orders = 0;
    const handler = idempotent({ store: memoryIdempotencyStore(), scope: () => "user:42" })(
      rateLimit({ limiter, key: () => "user:42" })(() => Response.json({ order: ++orders }, { status: 201 })),
    );
    const order = async (key: string) => {
      const headers = { "Idempotency-Key": key, "Content-Type": "application/json" };
      const body = JSON.stringify({ item: 7 });
      const response = await handler(new Request("http://localhost/orders", { method: "POST", headers, body }));
      return [response.status, await response.json(), response.headers.get("Idempotent-Replayed")];
    };
    expect(await order("a")).toEqual([201, { order: 1 }, null]);
    expect(await order("a")).toEqual([201, { order: 1 }, "true"]);
    expect((await limiter.peek("user:42")).remaining).toBe(9);
    expect(await order("b")).toEqual([201, { order: 2 }, null]);
    expect([(await limiter.peek("user:42")).remaining, orders]).toEqual([8, 2]);
  });
});

describe("limits from recorded traffic (seed 002)", () => {
  test("a busiest key with 8 requests per second at p99 is suggested 16/s and a burst of 80 to 160", () => {
    const start = 1_800_000_000_000;
    const day = 86_400_000;
    const samples: { key: string; at: number }[] = [];
    for (let hour = 0; hour <= 7 * 24; hour++) {
      for (let user = 0; user < 20; user++) samples.push({ key: `user:${user}`, at: start + (hour * day) / 24 });
    }
    // Active for 300 seconds of each day: mostly 3 to 8 requests, 12 in one second of two hundred.
    for (let second = 0; second < 7 * 300; second++) {
      const at = start + Math.floor(second / 300) * day + (second % 300) * 1000;
      const count = second % 200 === 0 ? 12 : 3 + (second % 6);
      for (let i = 0; i < count; i++) samples.push({ key: "partner", at: at + i });
    }
    const { suggested, candidates, evidence, reason } = suggestPolicy(samples);
    expect(evidence).toMatchObject({ days: 7, p99: 8, max: 12 });
    expect(suggested).toBe("16/s burst 120");
    expect(candidates.map(({ policy }) => policy)).toEqual(["16/s burst 80", "16/s burst 120", "16/s burst 160"]);
    expect(candidates.map(({ denied }) => denied)).toEqual([0, 0, 0]);
    expect(reason).toMatch(/^key [0-9a-f]{8} made 8\/s at p99$/);
  });
});

describe("abuse signals beyond counts (seed 001)", () => {
  const ip = { "cf-connecting-ip": "203.0.113.7", "user-agent": "Mozilla/5.0" };
  const provider: ChallengeProvider = {
    name: "turnstile",
    siteKey: "site",
    scriptUrl: "https://captcha.example/api.js",
    frameOrigin: "https://captcha.example",
    tokenField: "cf-turnstile-response",
    verify: async (token) => ({ ok: token === "solved", codes: [] }),
  };

  /** Statuses of GET requests as a Worker receives them, with a score of Cloudflare's bot management. */
  function worker(rules: RuleSet<never>, prevention: AbuseOptions) {
    const handler = rateLimit({
      rules,
      abuse: abuse(prevention),
      identity: { trustedProxies: 1, header: "cf-connecting-ip" },
    })(() => new Response("ok"));
    return async (path: string, score?: number, headers: Record<string, string> = {}): Promise<number> => {
      const request = new Request(`https://shop.example${path}`, { headers: { ...ip, ...headers } });
      if (score !== undefined) Object.assign(request, { cf: { botManagement: { score } } });
      return (await handler(request)).status;
    };
  }

  test("apply a tighter limit to a low bot score, per route", async () => {
    const rules = defineRules({
      rules: [
        { name: "scrapers", match: "GET /search", when: { bot: "likely" }, limits: { ip: "1/h" } },
        { name: "search", match: "GET /search", limits: { ip: "5/h" } },
        { name: "static", match: "GET /static/*", limits: { ip: "50/h" } },
      ],
      fallback: { limits: { ip: "10/h" } },
    });
    const send = worker(rules, { signals: [cloudflareBots()] });
    const seen = async (count: number, path: string, score?: number) => {
      const statuses: number[] = [];
      for (let i = 0; i < count; i++) statuses.push(await send(path, score));
      return statuses.filter((status) => status === 200).length;
    };
    expect(await seen(10, "/search", 12)).toBe(1);
    expect(await seen(10, "/search", 80)).toBe(5);
    expect(await seen(60, "/static/app.js", 12)).toBe(50);
  });

  test("challenge instead of a hard 429, and false positives clear themselves", async () => {
    const rules = defineRules({
      rules: [{ name: "list", match: "GET /list", limits: { ip: "1/h" }, action: "challenge" }],
      fallback: { limits: { ip: "10/h" } },
    });
    const send = worker(rules, { challenge: challenge({ provider, secret: ["0123456789abcdef0123456789abcdef"] }) });
    expect([await send("/list"), await send("/list")]).toEqual([200, 403]);
    expect(await send("/list", undefined, { "sluice-challenge-token": "solved" })).toBe(200);
  });

  test("extend the block exponentially on repeated violations", async () => {
    const clock = manualClock();
    const store = memoryStore({ clock });
    const rules = defineRules(
      {
        rules: [{ name: "login", match: "/login", limits: { ip: "1/m log" }, penalty: true }],
        fallback: { limits: { ip: "10/h" } },
      },
      { store },
    );
    const prevention = abuse({ penalty: { strikes: 1, block: "1m", maxBlock: "1h" }, store });
    const handler = rateLimit({
      rules,
      abuse: prevention,
      identity: { trustedProxies: 1, header: "cf-connecting-ip" },
    })(() => new Response("ok"));
    const minutes: number[] = [];
    for (let i = 0; i < 8; i++) {
      for (let n = 0; n < 2; n++) await handler(new Request("https://shop.example/login", { headers: ip }));
      const { retryAfterMs = 0 } = (await prevention.status("ip:203.0.113.7")) ?? {};
      minutes.push(retryAfterMs / 60_000);
      clock.advance(retryAfterMs);
    }
    expect(minutes).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
  });
});

describe("bursts at the boundary of a window (seeds 001 and 002)", () => {
  /** An instant at which a minute starts. */
  const NOON = Date.UTC(2027, 0, 4, 12);

  test("25 % into a window, a sliding window counts 75 % of the one before", async () => {
    const policy: Policy = { algorithm: "sliding-window", limit: 100, windowMs: 60_000 };
    const { limiter, clock } = limiterWithClock(policy, NOON);
    expect(allowedOf(80, limiter)).toBe(80);
    clock.advance(60_000 + 15_000);
    // 100 - 0.75 * 80
    expect((await limiter.peek("client")).remaining).toBe(40);
    expect(allowedOf(100, limiter)).toBe(40);
  });

  test.each([
    // Only the fixed window admits twice its limit within 2 ms.
    { policy: { algorithm: "fixed-window", limit: 100, windowMs: 1000 }, before: 100, after: 100 },
    // 99.9 % of the window before still count: 100 - ceil(99.9) is 0.
    { policy: { algorithm: "sliding-window", limit: 100, windowMs: 1000 }, before: 100, after: 0 },
    { policy: { algorithm: "sliding-log", limit: 100, windowMs: 1000 }, before: 100, after: 0 },
    // 0.2 tokens were refilled.
    { policy: { algorithm: "token-bucket", capacity: 100, tokensPerSecond: 100 }, before: 100, after: 0 },
    { policy: { algorithm: "leaky-bucket", capacity: 100, leaksPerSecond: 100 }, before: 100, after: 0 },
  ] satisfies { policy: Policy; before: number; after: number }[])(
    "140 requests at .999 and 180 at .001 against 100/s: $policy.algorithm",
    ({ policy, before, after }) => {
      const { limiter, clock } = limiterWithClock(policy, NOON + 999);
      expect(allowedOf(140, limiter)).toBe(before);
      clock.advance(2);
      expect(allowedOf(180, limiter)).toBe(after);
    },
  );

  test("nextAfterMs is what other libraries call resetIn (seed 004)", () => {
    const policy: Policy = { algorithm: "sliding-log", limit: 3, windowMs: 60_000 };
    const { limiter, clock } = limiterWithClock(policy, NOON);
    limiter.consumeSync("client");
    clock.advance(10_000);
    limiter.consumeSync("client");
    clock.advance(5000);
    // The oldest request falls out of the window in 45 s, the newest in 60 s.
    expect(limiter.consumeSync("client")).toMatchObject({ nextAfterMs: 45_000, resetAfterMs: 60_000, remaining: 0 });
    expect(limiter.consumeSync("client")).toMatchObject({ allowed: false, retryAfterMs: 45_000, nextAfterMs: 45_000 });
  });
});
