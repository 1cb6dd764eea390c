/** Tests of the observer with limiters, rules and middleware in memory. */
import {
  block,
  combine,
  concurrency,
  consumeAll,
  createLimiter,
  hold,
  holdAll,
  memoryRateLimiter,
  memoryStore,
  penalty,
  strike,
} from "sluice";
import { abuse, ipList } from "sluice/abuse";
import { rateLimit } from "sluice/fetch";
import { createObserver, type DecisionEvent, type Observer, type ObserverEvent } from "sluice/observe";
import { defineRules } from "sluice/rules";
import { describe, expect, it } from "vitest";

/** The value of a metric for these labels; 0 if there is none. */
function valueIn(observer: Observer, name: string, labels: Record<string, string>): number {
  const metric = observer.metrics().find((one) => one.name === name);
  if (!metric) throw new Error(`no metric ${name}`);
  const sample = metric.samples.find(
    (one) => JSON.stringify(Object.entries(one.labels).sort()) === JSON.stringify(Object.entries(labels).sort()),
  );
  return sample?.value ?? 0;
}

function eventsOf(observer: Observer): ObserverEvent[] {
  const events: ObserverEvent[] = [];
  observer.on((event) => events.push(event));
  return events;
}

const decisionsIn = (events: ObserverEvent[]): DecisionEvent[] =>
  events.filter((event): event is DecisionEvent => event.type === "decision");

const request = (path = "/", init?: RequestInit) => new Request(`http://localhost${path}`, init);

describe("an observed limiter", () => {
  it("counts decisions and cost by policy", async () => {
    const observer = createObserver();
    const limiter = createLimiter({ policy: { capacity: 5, tokensPerSecond: 1, name: "api" }, observer });
    await limiter.consume("a", 2);
    limiter.consumeSync("a", 2);
    limiter.consumeSync("a", 2);
    await limiter.peek("a");
    expect(valueIn(observer, "decisions_total", { policy: "api", outcome: "allowed" })).toBe(2);
    expect(valueIn(observer, "decisions_total", { policy: "api", outcome: "denied" })).toBe(1);
    expect(valueIn(observer, "cost_total", { policy: "api", outcome: "allowed" })).toBe(4);
    expect(valueIn(observer, "cost_total", { policy: "api", outcome: "denied" })).toBe(2);
    expect(valueIn(observer, "memory_keys", { store: "memory" })).toBe(1);
  });

  it("emits every decision with its tag, and never the key", async () => {
    const observer = createObserver();
    const events = eventsOf(observer);
    const policy = { capacity: 1, tokensPerSecond: 1, name: "api" };
    const limiter = observer.wrap(memoryRateLimiter(policy, { clock: { now: () => 0 } }));
    await limiter.consume("canary");
    await limiter.consume("canary");
    const [first, second] = decisionsIn(events) as [DecisionEvent, DecisionEvent];
    expect(first).toMatchObject({ rule: "api", policy: "api", outcome: "allowed", source: "store", remaining: 0 });
    expect(second).toMatchObject({ outcome: "denied", retryAfterMs: 1000, limit: 1, cost: 1 });
    expect(first.tag()).toMatch(/^[0-9a-f]{8}$/);
    expect(first.tag()).toBe(second.tag());
    expect(JSON.stringify(events)).not.toContain("canary");
    expect(observer.topKeys()).toMatchObject([{ tag: first.tag(), rule: "api", count: 1, atLeast: 1 }]);
  });

  it("has equal tags in two observers with one secret, and others without", async () => {
    const tagWith = (secret?: string): string => {
      const observer = createObserver(secret === undefined ? {} : { secret });
      observer.wrap(memoryRateLimiter("1/d fixed")).consumeSync("a", 2);
      return observer.topKeys()[0]?.tag as string;
    };
    expect(tagWith("0123456789abcdef")).toBe(tagWith("0123456789abcdef"));
    expect(tagWith()).not.toBe(tagWith());
  });

  it("keeps the members of the limiter", async () => {
    const observer = createObserver();
    const inner = memoryRateLimiter("5/s");
    const limiter = observer.wrap(inner);
    expect(limiter.store).toBe(inner.store);
    expect(limiter.getPolicy()).toBe(inner.getPolicy());
    expect(observer.wrap(limiter)).toBe(limiter);
    expect(observer.wrap(inner)).toBe(limiter);
    const decision = await limiter.consume("a", 3);
    await limiter.refund("a", 3, decision);
    expect((await limiter.peek("a")).remaining).toBe(5);
    await limiter.dispose();
    await expect(inner.consume("a")).rejects.toMatchObject({ code: "disposed" });
    await expect(limiter.consume("a")).rejects.toMatchObject({ code: "disposed" });
  });

  it("counts each policy of a combination once", async () => {
    const observer = createObserver();
    const events = eventsOf(observer);
    const store = memoryStore();
    const burst = createLimiter({ policy: { capacity: 2, tokensPerSecond: 1, name: "burst" }, store, observer });
    const daily = createLimiter({ policy: { capacity: 10, tokensPerSecond: 1, name: "daily" }, store, observer });
    const both = combine([burst, daily]);
    for (let i = 0; i < 3; i++) both.consumeSync("a");
    await both.consume("a");
    await consumeAll([
      { limiter: burst, key: "b" },
      { limiter: daily, key: "c" },
    ]);
    expect(valueIn(observer, "decisions_total", { policy: "burst", outcome: "allowed" })).toBe(3);
    expect(valueIn(observer, "decisions_total", { policy: "daily", outcome: "allowed" })).toBe(3);
    expect(valueIn(observer, "decisions_total", { policy: "burst", outcome: "denied" })).toBe(2);
    expect(valueIn(observer, "decisions_total", { policy: "daily", outcome: "denied" })).toBe(0);
    expect(decisionsIn(events)).toHaveLength(5);
  });

  it("counts a wrapped combination of limiters that are not observed", () => {
    const observer = createObserver();
    const store = memoryStore();
    const one = createLimiter({ policy: { capacity: 2, tokensPerSecond: 1, name: "one" }, store });
    const two = createLimiter({ policy: { capacity: 10, tokensPerSecond: 1, name: "two" }, store });
    const both = observer.wrap(combine([one, two]));
    for (let i = 0; i < 3; i++) both.consumeSync("a");
    expect(valueIn(observer, "decisions_total", { policy: "one", outcome: "allowed" })).toBe(2);
    expect(valueIn(observer, "decisions_total", { policy: "two", outcome: "allowed" })).toBe(2);
    expect(valueIn(observer, "decisions_total", { policy: "one", outcome: "denied" })).toBe(1);
  });

  it("counts the cost of holds when they are settled", async () => {
    const observer = createObserver();
    const limiter = createLimiter({ policy: { capacity: 100, tokensPerSecond: 1, name: "tokens" }, observer });
    const held = await hold(limiter, "a", 50);
    expect(valueIn(observer, "decisions_total", { policy: "tokens", outcome: "allowed" })).toBe(1);
    expect(valueIn(observer, "cost_total", { policy: "tokens", outcome: "allowed" })).toBe(0);
    if (held.allowed) await held.hold.settle(20);
    expect(valueIn(observer, "cost_total", { policy: "tokens", outcome: "allowed" })).toBe(20);
  });

  it("releases the leases of a concurrency limit that were held together with others", async () => {
    const observer = createObserver();
    const store = memoryStore();
    const inner = createLimiter({ policy: concurrency(1, { name: "slots" }), store });
    const slots = observer.wrap(inner);
    const rate = observer.wrap(createLimiter({ policy: "5/s", store }));
    const held = await holdAll([
      { limiter: slots, key: "a" },
      { limiter: rate, key: "a", cost: 1 },
    ]);
    expect(held.allowed).toBe(true);
    await slots.dispose();
    const next = createLimiter({ policy: concurrency(1, { name: "slots" }), store });
    expect((await hold(next, "a")).allowed).toBe(true);
    expect(valueIn(observer, "decisions_total", { policy: "slots", outcome: "allowed" })).toBe(1);
    expect(valueIn(observer, "cost_total", { policy: "slots", outcome: "allowed" })).toBe(1);
  });

  it("counts each block once, by strikes and by hand", async () => {
    const observer = createObserver();
    const events = eventsOf(observer);
    const limiter = createLimiter({ policy: penalty({ strikes: 2, blockMs: "1m", name: "penalty" }), observer });
    await strike(limiter, "a");
    await strike(limiter, "a");
    await strike(limiter, "a");
    await block(limiter, "b", "1h");
    expect(valueIn(observer, "blocks_total", { policy: "penalty" })).toBe(2);
    expect(events.filter(({ type }) => type === "block-started")).toHaveLength(2);
  });

  it("reports evictions of keys in use", () => {
    const observer = createObserver();
    const events = eventsOf(observer);
    const limiter = observer.wrap(memoryRateLimiter("5/h", { maxKeys: 10 }));
    for (let i = 0; i < 50; i++) limiter.consumeSync(`key ${i}`);
    expect(valueIn(observer, "memory_evictions_total", { store: "memory" })).toBe(40);
    expect(events.filter(({ type }) => type === "evicted")).toMatchObject([{ store: "memory" }]);
  });
});

describe("rateLimit with an observer", () => {
  it("counts requests by policy without rules, and decisions once", async () => {
    const observer = createObserver();
    const events = eventsOf(observer);
    const limit = rateLimit({ policy: { capacity: 2, tokensPerSecond: 1, name: "api" }, key: () => "a", observer });
    const handler = limit(() => new Response("ok"));
    for (let i = 0; i < 3; i++) await handler(request());
    expect(valueIn(observer, "requests_total", { rule: "api", outcome: "allowed" })).toBe(2);
    expect(valueIn(observer, "requests_total", { rule: "api", outcome: "denied" })).toBe(1);
    expect(valueIn(observer, "decisions_total", { policy: "api", outcome: "allowed" })).toBe(2);
    expect(valueIn(observer, "decisions_total", { policy: "api", outcome: "denied" })).toBe(1);
    expect(decisionsIn(events)).toHaveLength(3);
    expect(decisionsIn(events)[2]).toMatchObject({ rule: "api", outcome: "denied", method: "GET" });
  });

  it("counts an observed limiter once", async () => {
    const observer = createObserver();
    const events = eventsOf(observer);
    const limiter = createLimiter({ policy: { capacity: 2, tokensPerSecond: 1, name: "api" }, observer });
    const handler = rateLimit({ limiter, key: () => "a", observer })(() => new Response("ok"));
    for (let i = 0; i < 3; i++) await handler(request());
    expect(valueIn(observer, "decisions_total", { policy: "api", outcome: "allowed" })).toBe(2);
    expect(decisionsIn(events)).toHaveLength(3);
  });

  it("counts several limits, a limiter function and a third-party limiter", async () => {
    const observer = createObserver();
    const policy = (name: string) => ({ capacity: 2, tokensPerSecond: 1, name });
    const store = memoryStore();
    const [user, ip] = [
      createLimiter({ policy: policy("user"), store }),
      createLimiter({ policy: policy("ip"), store }),
    ];
    const limits = rateLimit({
      limits: [
        { limiter: user, key: () => "u" },
        { limiter: () => ip, key: () => "i" },
      ],
      observer,
    })(() => new Response("ok"));
    for (let i = 0; i < 3; i++) await limits(request());
    expect(valueIn(observer, "decisions_total", { policy: "user", outcome: "allowed" })).toBe(2);
    expect(valueIn(observer, "decisions_total", { policy: "ip", outcome: "denied" })).toBe(1);
    const plan = createLimiter({ policy: policy("plan") });
    const byPlan = rateLimit({ limiter: () => plan, key: () => "a", observer })(() => new Response("ok"));
    for (let i = 0; i < 3; i++) await byPlan(request());
    expect(valueIn(observer, "requests_total", { rule: "plan", outcome: "denied" })).toBe(1);
    expect(valueIn(observer, "decisions_total", { policy: "plan", outcome: "denied" })).toBe(1);
    const foreign = {
      consume: async () =>
        ({
          allowed: false,
          policy: "foreign",
          limit: 1,
          remaining: 0,
          resetAfterMs: 1,
          nextAfterMs: 1,
          retryAfterMs: 1,
        }) as const,
    };
    await rateLimit({ limiter: foreign, key: () => "a", observer })(() => new Response("ok"))(request());
    expect(valueIn(observer, "decisions_total", { policy: "foreign", outcome: "denied" })).toBe(1);
  });

  it("counts rules, shadow rules and flagged limits", async () => {
    const observer = createObserver();
    const events = eventsOf(observer);
    const rules = defineRules({
      rules: [
        { name: "login", match: "POST /login", limits: { ip: "1/d fixed" } },
        { name: "search", match: "GET /search", mode: "shadow", limits: { ip: "1/d fixed" } },
        { name: "export", match: "GET /export/:id", action: "flag", limits: { ip: "1/d fixed" } },
      ],
      fallback: { limits: { ip: "100/s" } },
    });
    const handler = rateLimit({ rules, identity: { trustedProxies: 1, header: "cf-connecting-ip" }, observer })(
      () => new Response("ok"),
    );
    const send = (method: string, path: string) =>
      handler(request(path, { method, headers: { "cf-connecting-ip": "203.0.113.7" } }));
    for (const [method, path] of [
      ["POST", "/login"],
      ["GET", "/search"],
      ["GET", "/export/7"],
      ["GET", "/"],
    ] as const) {
      for (let i = 0; i < 3; i++) await send(method, path);
    }
    expect(valueIn(observer, "requests_total", { rule: "login", outcome: "allowed" })).toBe(1);
    expect(valueIn(observer, "requests_total", { rule: "login", outcome: "denied" })).toBe(2);
    expect(valueIn(observer, "requests_total", { rule: "search", outcome: "allowed" })).toBe(1);
    expect(valueIn(observer, "requests_total", { rule: "search", outcome: "would-deny" })).toBe(2);
    expect(valueIn(observer, "requests_total", { rule: "export", outcome: "would-deny" })).toBe(2);
    expect(valueIn(observer, "requests_total", { rule: "fallback", outcome: "allowed" })).toBe(3);
    expect(valueIn(observer, "decisions_total", { policy: "search.ip", outcome: "would-deny" })).toBe(2);
    expect(valueIn(observer, "decisions_total", { policy: "login.ip", outcome: "denied" })).toBe(2);
    expect(valueIn(observer, "rules_info", { version: rules.version })).toBe(1);
    const denied = decisionsIn(events).find(({ rule, outcome }) => rule === "login" && outcome === "denied");
    expect(denied).toMatchObject({ policy: "login.ip", per: "ip", method: "POST", route: "/login" });
    expect(JSON.stringify(events)).not.toContain("203.0.113.7");
  });

  it("counts the rules of consume() without a server, and reloads", async () => {
    const observer = createObserver();
    const events = eventsOf(observer);
    const data = (text: "1/d fixed" | "2/d fixed") =>
      ({
        rules: [{ name: "job", match: "/jobs", limits: { ip: text } }],
        fallback: { limits: { ip: "1/d fixed" } },
      }) as const;
    const rules = defineRules(data("1/d fixed"), { observer });
    for (let i = 0; i < 2; i++) await rules.consume({ method: "POST", path: "/jobs", ip: "203.0.113.7" });
    expect(valueIn(observer, "requests_total", { rule: "job", outcome: "allowed" })).toBe(1);
    expect(valueIn(observer, "requests_total", { rule: "job", outcome: "denied" })).toBe(1);
    expect(decisionsIn(events)).toHaveLength(2);
    await rules.replace(data("2/d fixed"));
    await expect(rules.replace({ rules: "no" })).rejects.toThrow();
    expect(valueIn(observer, "rules_reloads_total", { result: "applied" })).toBe(1);
    expect(valueIn(observer, "rules_reloads_total", { result: "rejected" })).toBe(1);
    expect(valueIn(observer, "rules_info", { version: rules.version })).toBe(1);
    expect(events.map(({ type }) => type).filter((type) => type !== "decision")).toEqual([
      "rules-replaced",
      "rules-rejected",
    ]);
  });

  it("counts requests that lists, traps and penalties reject", async () => {
    const observer = createObserver();
    const events = eventsOf(observer);
    const handler = rateLimit({
      policy: { capacity: 1, tokensPerSecond: 0.001, name: "api" },
      identity: { trustedProxies: 1, header: "cf-connecting-ip" },
      abuse: abuse({
        deny: [ipList(["198.51.100.0/24"])],
        traps: ["/wp-login.php"],
        penalty: { strikes: 2, block: "1m" },
      }),
      observer,
    })(() => new Response("ok"));
    const send = (ip: string, path = "/") => handler(request(path, { headers: { "cf-connecting-ip": ip } }));
    await send("198.51.100.1");
    await send("203.0.113.1", "/wp-login.php");
    for (let i = 0; i < 5; i++) await send("203.0.113.2");
    await send("203.0.113.1");
    expect(valueIn(observer, "requests_total", { rule: "list", outcome: "blocked" })).toBe(1);
    expect(valueIn(observer, "requests_total", { rule: "trap", outcome: "blocked" })).toBe(1);
    expect(valueIn(observer, "requests_total", { rule: "api", outcome: "allowed" })).toBe(1);
    expect(valueIn(observer, "requests_total", { rule: "api", outcome: "denied" })).toBe(1);
    expect(valueIn(observer, "blocks_total", { policy: "penalty.ip" })).toBe(2);
    // The limiting policy is the one with the longer wait.
    expect(valueIn(observer, "requests_total", { rule: "api", outcome: "blocked" })).toBe(3);
    expect(valueIn(observer, "requests_total", { rule: "penalty.ip", outcome: "blocked" })).toBe(1);
    expect(events.filter(({ type }) => type === "block-started")).toHaveLength(2);
  });

  it("counts requests that could not be checked", async () => {
    const observer = createObserver();
    const options = {
      policy: "5/s",
      key: () => {
        throw new Error("no key");
      },
      observer,
    } as const;
    await rateLimit({ ...options, onError: () => "deny" })(() => new Response("ok"))(request());
    await rateLimit({ ...options, onError: () => "allow" })(() => new Response("ok"))(request());
    expect(valueIn(observer, "requests_total", { rule: "none", outcome: "unavailable" })).toBe(1);
    expect(valueIn(observer, "requests_total", { rule: "none", outcome: "allowed" })).toBe(1);
  });

  it("rejects what is not an observer", () => {
    for (const observer of [{}, null, 7] as never[]) {
      expect(() => rateLimit({ policy: "5/s", observer })).toThrow(/observer must be made by createObserver\(\)/);
      expect(() => createLimiter({ policy: "5/s", observer })).toThrow(/observer must be made by createObserver\(\)/);
    }
  });
});

describe("top keys", () => {
  it("contain no requests that shadow mode would deny", async () => {
    const observer = createObserver();
    const policy = { capacity: 1, tokensPerSecond: 0.01, name: "api" };
    const handler = rateLimit({ policy, key: () => "a", mode: "shadow", observer })(() => new Response("ok"));
    for (let i = 0; i < 3; i++) await handler(request());
    expect(valueIn(observer, "requests_total", { rule: "api", outcome: "would-deny" })).toBe(2);
    expect(observer.topKeys()).toEqual([]);
    const gauge = observer.metrics().find(({ name }) => name === "top_key_denied_per_second");
    expect(gauge?.samples).toEqual([]);
  });
});
