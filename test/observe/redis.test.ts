/** Tests of the observer with a real Redis server: durations, sources, errors and outages. */
import { Redis } from "ioredis";
import { combine, createLimiter } from "sluice";
import { idempotent } from "sluice/fetch";
import { createObserver, type DecisionEvent, type Observer, type ObserverEvent } from "sluice/observe";
import { redisIdempotencyStore, redisRateLimiter, redisStore } from "sluice/redis";
import { defineRules } from "sluice/rules";
import { describe, expect, it } from "vitest";
import { redis } from "../redis/own-redis.ts";
import { withRedis } from "../servers/needs.ts";
import { startRedis } from "../servers/redis-server.js";
import { until } from "../servers/until.js";

function metricOf(observer: Observer, name: string) {
  return observer.metrics().find((one) => one.name === name)?.samples ?? [];
}

let finish: () => void = () => {};

function observed() {
  const observer = createObserver();
  const events: ObserverEvent[] = [];
  observer.on((event) => events.push(event));
  const decisions = () => events.filter((event): event is DecisionEvent => event.type === "decision");
  return { observer, events, decisions };
}

describe("an observer on Redis", withRedis, () => {
  it("measures the calls of the store, and the wait of each decision", async () => {
    const { observer, decisions } = observed();
    const limiter = redisRateLimiter(redis, { capacity: 50, tokensPerSecond: 1, name: "measured" }, { observer });
    for (let i = 0; i < 20; i++) await limiter.consume("a");
    const [sample] = metricOf(observer, "decision_duration_seconds");
    expect(sample).toMatchObject({ labels: { store: "redis" }, value: 20 });
    expect(sample?.buckets?.at(-1)).toBe(20);
    expect(decisions()).toHaveLength(20);
    for (const { durationMs, source } of decisions()) {
      expect(source).toBe("store");
      expect(durationMs).toBeGreaterThan(0);
    }
    const total = decisions().reduce((sum, { durationMs = 0 }) => sum + durationMs, 0);
    // The caller waits for the call, and a little longer.
    expect(sample?.sum).toBeGreaterThan(0);
    expect(sample?.sum).toBeLessThanOrEqual(total / 1000);
    expect(metricOf(observer, "store_up")).toEqual([{ labels: { store: "redis" }, value: 1 }]);
  });

  it("measures how long requests wait for the store, and not those that are decided in memory", async () => {
    const { observer, decisions } = observed();
    const rulesOn = (store?: ReturnType<typeof redisStore>) =>
      defineRules(
        { rules: [{ name: "search", match: "/search", limits: { ip: "1/d fixed" } }], fallback: "unlimited" },
        { observer, prefix: "waiting", ...(store && { store }) },
      );
    const request = { method: "GET", path: "/search", ip: "203.0.113.7" };
    for (const rules of [rulesOn(redisStore(redis)), rulesOn()]) {
      for (let i = 0; i < 3; i++) await rules.consume(request);
    }
    const waits = decisions().map(({ outcome, source, durationMs = 0 }) => `${outcome} ${source} ${durationMs > 0}`);
    expect(waits).toEqual([
      "allowed store true",
      "denied store true",
      "denied cache false",
      "allowed store false",
      "denied store false",
      "denied store false",
    ]);
  });

  it("names the cache as the source of a repeated denial", async () => {
    const { observer, decisions } = observed();
    const limiter = redisRateLimiter(redis, { capacity: 1, tokensPerSecond: 0.01, name: "cached" }, { observer });
    for (let i = 0; i < 5; i++) await limiter.consume("a");
    expect(decisions().map(({ outcome, source }) => `${outcome} ${source}`)).toEqual([
      "allowed store",
      "denied store",
      "denied cache",
      "denied cache",
      "denied cache",
    ]);
    expect(metricOf(observer, "decision_duration_seconds")[0]?.value).toBe(2);
    expect(metricOf(observer, "degraded_decisions_total")).toEqual([]);
  });

  it("counts combinations, rules and shadow rules in one call", async () => {
    const { observer } = observed();
    const store = redisStore(redis);
    const policy = (name: string, capacity: number) => ({ capacity, tokensPerSecond: 0.01, name });
    const both = combine([
      createLimiter({ policy: policy("minute", 2), store, observer }),
      createLimiter({ policy: policy("day", 9), store, observer }),
    ]);
    for (let i = 0; i < 4; i++) await both.consume("a");
    const rules = defineRules(
      {
        rules: [{ name: "search", match: "/search", mode: "shadow", limits: { ip: "1/d fixed" }, budgets: ["api"] }],
        budgets: { api: { ip: "3/d fixed" } },
        fallback: { limits: { ip: "1/d fixed" } },
      },
      { store, observer, prefix: "observed" },
    );
    for (let i = 0; i < 5; i++) await rules.consume({ method: "GET", path: "/search", ip: "203.0.113.7" });
    const counts = Object.fromEntries(
      metricOf(observer, "decisions_total").map(({ labels, value }) => [`${labels.policy} ${labels.outcome}`, value]),
    );
    expect(counts).toEqual({
      "minute allowed": 2,
      "minute denied": 2,
      "day allowed": 2,
      "api allowed": 3,
      "api denied": 2,
      "search.ip allowed": 1,
      // The last denial is repeated from the cache, and a request that does not continue is not counted in shadow mode.
      "search.ip would-deny": 3,
    });
    const requests = metricOf(observer, "requests_total").map(({ labels, value }) => `${labels.outcome} ${value}`);
    expect(requests.sort()).toEqual(["allowed 1", "denied 2", "would-deny 2"]);
  });

  it("reports an outage: errors by kind, the circuit, degraded decisions and the recovery", async () => {
    const server = await startRedis();
    const client = new Redis(server.port, {
      retryStrategy: () => 20,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
    });
    client.on("error", () => {});
    const { observer, events, decisions } = observed();
    const limiter = redisRateLimiter(client, { capacity: 100, tokensPerSecond: 1, name: "outage" }, { observer });
    try {
      await limiter.consume("a");
      await server.stop();
      for (let i = 0; i < 20; i++) await limiter.consume("a");
      expect(metricOf(observer, "store_up")).toEqual([{ labels: { store: "redis" }, value: 0 }]);
      const errors = metricOf(observer, "store_errors_total");
      expect(errors.reduce((sum, { value }) => sum + value, 0)).toBe(20);
      expect(errors.map(({ labels }) => labels.kind)).toContain("circuit-open");
      expect(errors.map(({ labels }) => labels.kind)).toContain("unreachable");
      expect(metricOf(observer, "degraded_decisions_total")).toEqual([{ labels: { policy: "outage" }, value: 20 }]);
      expect(decisions().at(-1)).toMatchObject({ source: "local", degraded: true });
      const again = await startRedis({ port: server.port });
      try {
        await until("the store is not up again", async () => {
          await limiter.consume("a");
          return events.some(({ type }) => type === "store-up") ? undefined : "no event";
        });
        expect(events.filter(({ type }) => type !== "decision")).toMatchObject([
          {
            type: "store-down",
            store: "redis",
            message: expect.stringMatching(/^The store is unavailable \(\w+\)\.$/),
          },
          {
            type: "store-up",
            store: "redis",
            message: expect.stringMatching(/^The store replies again after \d+ ms\.$/),
          },
        ]);
        expect(metricOf(observer, "store_up")).toEqual([{ labels: { store: "redis" }, value: 1 }]);
      } finally {
        await again.stop();
      }
    } finally {
      client.disconnect();
    }
  });

  it("still emits the process warning about an outage", async () => {
    const client = new Redis(1, { lazyConnect: true, retryStrategy: () => null });
    client.on("error", () => {});
    const warnings: string[] = [];
    const listen = (warning: Error & { code?: string }) => void warnings.push(warning.code ?? "");
    process.on("warning", listen);
    const limiter = redisRateLimiter(client, "5/s", { observer: createObserver() });
    await limiter.consume("a");
    await until("there is no warning", async () => (warnings.length > 0 ? undefined : "none"));
    process.off("warning", listen);
    client.disconnect();
    expect(warnings).toContain("SLUICE_STORE_UNAVAILABLE");
  });

  it("observes the store of idempotent responses, and counts what happens to a key", async () => {
    const { observer } = observed();
    const store = redisIdempotencyStore(redis);
    let isOpen = false;
    const open = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const handler = idempotent({ store, scope: () => "user", observer })(async () => {
      if (!isOpen) await open;
      return new Response("ok");
    });
    const send = (key: string, body = "{}") =>
      handler(new Request("http://localhost/", { method: "POST", headers: { "idempotency-key": key }, body }));
    const first = send("observed-1");
    await until("the request has not started", async () =>
      metricOf(observer, "idempotency_total").length > 0 ? undefined : "not counted",
    );
    expect((await send("observed-1")).status).toBe(409);
    isOpen = true;
    finish();
    expect((await first).status).toBe(200);
    expect((await send("observed-1")).status).toBe(200);
    expect((await send("observed-1", "another")).status).toBe(422);
    const states = metricOf(observer, "idempotency_total").map(({ labels, value }) => `${labels.state} ${value}`);
    expect(states).toEqual(["started 1", "in-progress 1", "replayed 1", "key-reused 1"]);
    expect(metricOf(observer, "requests_total")).toEqual([
      { labels: { rule: "idempotent", outcome: "replayed" }, value: 1 },
    ]);
    expect(metricOf(observer, "store_up")).toEqual([{ labels: { store: "idempotency" }, value: 1 }]);
    expect(metricOf(observer, "decision_duration_seconds")[0]?.value).toBeGreaterThan(4);
  });

  it("counts a value that sluice did not write as foreign-value", async () => {
    const { observer, events } = observed();
    const limiter = redisRateLimiter(redis, { capacity: 5, tokensPerSecond: 1, name: "foreign" }, { observer });
    await limiter.consume("canary-key");
    const { storedKey } = await limiter.inspect("canary-key");
    await redis.set(storedKey, "not ours");
    await limiter.consume("canary-key");
    expect(metricOf(observer, "store_errors_total")).toEqual([
      { labels: { store: "redis", kind: "foreign-value" }, value: 1 },
    ]);
    expect(events.filter(({ type }) => type === "foreign-value")).toMatchObject([{ policy: "foreign" }]);
    expect(JSON.stringify(events)).not.toContain("canary-key");
  });
});
