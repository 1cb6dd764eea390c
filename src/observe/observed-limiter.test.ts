/** Tests of observed limiters: each decision is counted and reported once, and the limiter stays what it was. */
import {
  block,
  combine,
  createLimiter,
  hold,
  holdSync,
  memoryRateLimiter,
  memoryStore,
  penalty,
  type Store,
  settle,
} from "sluice";
import { abuse } from "sluice/abuse";
import { hybridRateLimiter } from "sluice/cloudflare";
import { rateLimit } from "sluice/fetch";
import { createObserver, type DecisionEvent, type Observer } from "sluice/observe";
import { otelMetrics } from "sluice/otel";
import { defineRules } from "sluice/rules";
import { describe, expect, it } from "vitest";

/** The samples of a metric: `{ "api|denied": 1 }`. */
function samplesOf(observer: Observer, name: string): Record<string, number> {
  const metric = observer.metrics().find((one) => one.name === name);
  if (!metric) throw new Error(`no metric ${name}`);
  return Object.fromEntries(metric.samples.map(({ labels, value }) => [Object.values(labels).join("|"), value]));
}

function decisionsOf(observer: Observer): DecisionEvent[] {
  const events: DecisionEvent[] = [];
  observer.on((event) => {
    if (event.type === "decision") events.push(event);
  });
  return events;
}

const bucket = (name: string, capacity = 10) => ({ capacity, tokensPerSecond: 0.001, name });
const ok = () => new Response("ok");
const request = (headers = {}) => new Request("http://localhost/", { headers });

describe("holds of a limiter that was created without the observer", () => {
  it("count what is settled", async () => {
    const observer = createObserver();
    const limiter = observer.wrap(memoryRateLimiter(bucket("ai")));
    const decision = await hold(limiter, "a", 5);
    if (decision.allowed) await decision.hold.settle(3);
    await hold(limiter, "b", 5, { id: "one" });
    await settle(limiter, "b", "one", 4);
    expect(samplesOf(observer, "cost_total")).toEqual({ "ai|allowed": 7 });
    expect(samplesOf(observer, "decisions_total")).toEqual({ "ai|allowed": 2 });
  });

  it("count what middleware settles", async () => {
    const observer = createObserver();
    const hold = { estimate: 5, actual: () => 3 };
    const handler = rateLimit({ policy: bucket("ai"), key: () => "a", hold, observer })(ok);
    await (await handler(request())).text();
    await expect.poll(() => samplesOf(observer, "cost_total")).toEqual({ "ai|allowed": 3 });
  });

  it("count once in a combination", async () => {
    const observer = createObserver();
    const events = decisionsOf(observer);
    const limiter = observer.wrap(combine([memoryRateLimiter(bucket("a")), memoryRateLimiter(bucket("b"))]));
    const decision = holdSync(limiter, "k", 4);
    await hold(limiter, "k", 9);
    if (decision.allowed) await decision.hold.settle(3);
    expect(samplesOf(observer, "decisions_total")).toEqual({
      "a|allowed": 1,
      "a|denied": 1,
      "b|allowed": 1,
      "b|denied": 1,
    });
    expect(samplesOf(observer, "cost_total")).toMatchObject({ "a|allowed": 3, "b|allowed": 3 });
    expect(events).toHaveLength(2);
  });

  it("reject after the limiter was disposed of", async () => {
    const limiter = createObserver().wrap(memoryRateLimiter(bucket("a")));
    await limiter.dispose();
    await expect(hold(limiter, "k")).rejects.toThrow("disposed");
    await expect(settle(limiter, "k", "id", 1)).rejects.toThrow("disposed");
  });
});

describe("an observed limiter", () => {
  it("reports once if some parts of a combination are observed already", async () => {
    const observer = createObserver();
    const events = decisionsOf(observer);
    const store = memoryStore();
    const observed = createLimiter({ policy: bucket("a", 1), store, observer });
    const both = observer.wrap(combine([observed, createLimiter({ policy: bucket("b", 1), store })]));
    await both.consume("k");
    await both.consume("k");
    expect(events.map(({ outcome }) => outcome)).toEqual(["allowed", "denied"]);
    expect(observer.topKeys()).toMatchObject([{ count: 1, atLeast: 1 }]);
  });

  it("counts each decision of a hybrid once", async () => {
    const observer = createObserver();
    const events = decisionsOf(observer);
    const first = createLimiter({ policy: bucket("first"), observer });
    const exact = createLimiter({ policy: bucket("exact", 1) });
    const hybrid = hybridRateLimiter(first, exact);
    const handler = rateLimit({ limiter: hybrid, key: () => "k", observer })(ok);
    await handler(request());
    await handler(request());
    await observer.wrap(hybrid).consume("k");
    expect(samplesOf(observer, "decisions_total")).toEqual({
      "first|allowed": 3,
      "exact|allowed": 1,
      "exact|denied": 2,
    });
    expect(events.map(({ outcome }) => outcome)).toEqual(["allowed", "denied", "denied"]);
    expect(observer.topKeys()).toMatchObject([{ rule: "exact", count: 2 }]);
  });

  it("refunds through a wrapped hybrid, and ends with it", async () => {
    const [first, exact] = [memoryRateLimiter(bucket("first")), memoryRateLimiter(bucket("exact"))];
    const hybrid = createObserver().wrap(hybridRateLimiter(first, exact));
    const decision = await hybrid.consume("k", 4);
    await hybrid.refund("k", 4, decision);
    expect([(await first.peek("k")).remaining, (await exact.peek("k")).remaining]).toEqual([10, 10]);
    await hybrid.dispose();
    await expect(hybrid.consume("k")).rejects.toThrow("disposed");
  });

  it("reports a block by a penalty of a combination", async () => {
    const observer = createObserver();
    const events = decisionsOf(observer);
    const store = memoryStore();
    const limit = createLimiter({ policy: bucket("api", 1), store, observer });
    const blocks = createLimiter({ policy: penalty({ blockMs: "1m", name: "blocks" }), store, observer });
    const both = combine([limit, blocks]);
    await both.consume("k");
    await both.consume("k");
    expect(events.map(({ outcome }) => outcome)).toEqual(["allowed", "blocked"]);
  });

  it("counts denials of middleware in shadow mode as would-deny", async () => {
    const observer = createObserver();
    const handler = rateLimit({ policy: bucket("api", 1), key: () => "k", mode: "shadow", observer })(ok);
    await handler(request());
    await handler(request());
    expect(samplesOf(observer, "decisions_total")).toEqual({ "api|allowed": 1, "api|would-deny": 1 });
    expect(samplesOf(observer, "requests_total")).toEqual({ "api|allowed": 1, "api|would-deny": 1 });
  });

  it("counts rules in shadow mode behind a penalty that is only looked at", async () => {
    const observer = createObserver();
    const rules = defineRules({
      version: 1,
      rules: [{ name: "all", match: "/", mode: "shadow", limits: { ip: "1/d" } }],
      fallback: "unlimited",
    });
    const identity = { trustedProxies: 1, header: "cf-connecting-ip" } as const;
    const handler = rateLimit({ rules, identity, abuse: abuse({ traps: ["/trap"] }), observer })(ok);
    for (let i = 0; i < 3; i++) await handler(request({ "cf-connecting-ip": "203.0.113.1" }));
    expect(samplesOf(observer, "decisions_total")).toEqual({ "all.ip|allowed": 1, "all.ip|would-deny": 2 });
  });
});

describe("an observed third-party limiter", () => {
  const allowed = { allowed: true, policy: "own", limit: 1, remaining: 0, resetAfterMs: 0, nextAfterMs: 0 } as const;

  it("may be frozen", async () => {
    const observer = createObserver();
    const limiter = observer.wrap(Object.freeze({ consume: async () => allowed }));
    await limiter.consume();
    expect(samplesOf(observer, "decisions_total")).toEqual({ "own|allowed": 1 });
  });

  it("may have private fields", async () => {
    class Own {
      #calls = 0;
      async consume(_key: string) {
        this.#calls++;
        return allowed;
      }
      get calls(): number {
        return this.#calls;
      }
      set calls(calls: number) {
        this.#calls = calls;
      }
      clear(): void {
        this.#calls = 0;
      }
    }
    const limiter = createObserver().wrap(new Own());
    await limiter.consume("a");
    expect(limiter.calls).toBe(1);
    limiter.calls = 7;
    expect(limiter.calls).toBe(7);
    limiter.clear();
    expect(limiter.calls).toBe(0);
    expect(limiter).toBeInstanceOf(Own);
  });

  it("may return decisions without a policy", async () => {
    const observer = createObserver();
    const events = decisionsOf(observer);
    const limiter = { consume: async () => ({ allowed: false, retryAfterMs: 1000 }) as never };
    await rateLimit({ limiter, key: () => "k", observer })(ok)(request());
    expect(samplesOf(observer, "requests_total")).toEqual({ "unnamed|denied": 1 });
    expect(samplesOf(observer, "decisions_total")).toEqual({ "unnamed|denied": 1 });
    expect(events).toMatchObject([{ rule: "unnamed", policy: "unnamed" }]);
    expect(observer.topKeys()).toMatchObject([{ rule: "unnamed" }]);
  });
});

describe("a meter that throws", () => {
  it("does not keep callers of a remote store waiting", async () => {
    const observer = createObserver();
    const fail = () => {
      throw new Error("no exporter");
    };
    const meter = {
      createHistogram: () => ({ record: fail }),
      createObservableCounter: () => ({}),
      createObservableGauge: () => ({}),
      addBatchObservableCallback: () => {},
    };
    otelMetrics(observer, { meterProvider: { getMeter: () => meter } as never });
    const memory = memoryStore();
    const apply: Store["apply"] = (groups, call) => memory.apply(groups, call);
    const store: Store = {
      consistency: "exact",
      apply,
      inspect: (...args) => memory.inspect(...args),
      dispose: async () => {},
    };
    expect(await createLimiter({ policy: "1/s", store, observer }).consume("k")).toMatchObject({ allowed: true });
    expect(samplesOf(observer, "decision_duration_seconds")).toEqual({ store: 1 });
  });
});

describe("the names of stores", () => {
  it("are unique, also if kinds end with numbers", () => {
    const observer = createObserver();
    for (const kind of ["redis-2", "redis", "redis", "redis-2"]) {
      const store = { ...memoryStore(), kind, consistency: "exact", apply: async () => [] } as never;
      createLimiter({ policy: "1/s", store, observer });
    }
    expect(Object.keys(samplesOf(observer, "store_up"))).toEqual(["redis-2", "redis", "redis-3", "redis-2-2"]);
  });
});

describe("a limiter whose consume an application has replaced", () => {
  /** As in docs/guide/test-rate-limits.md. The store is not synchronous, so `consume` is what others call. */
  const remoteStore = (): Store => {
    const store = memoryStore();
    return {
      consistency: "exact",
      apply: async (groups) => groups.map((group) => store.applySync(group)),
      inspect: (policy, key) => store.inspect(policy, key),
      dispose: () => store.dispose(),
    };
  };
  const decorated = () => {
    const limiter = createLimiter({ policy: bucket("api", 2), store: remoteStore() });
    const calls: string[] = [];
    const consume = (key: string, cost?: number) => {
      calls.push(key);
      return limiter.consume(key, cost);
    };
    return { calls, own: Object.assign(Object.create(limiter) as typeof limiter, { consume, extra: 1 }) };
  };

  it("is still called, counted and reported once", async () => {
    const observer = createObserver();
    const events = decisionsOf(observer);
    const { calls, own } = decorated();
    const limiter = observer.wrap(own);
    expect(limiter).toMatchObject({ extra: 1 });
    for (let i = 0; i < 3; i++) await limiter.consume("k");
    expect(calls).toEqual(["k", "k", "k"]);
    expect(samplesOf(observer, "decisions_total")).toEqual({ "api|allowed": 2, "api|denied": 1 });
    expect(events.map(({ outcome }) => outcome)).toEqual(["allowed", "allowed", "denied"]);
    await combine([limiter]).consume("other");
    expect(samplesOf(observer, "decisions_total")).toMatchObject({ "api|allowed": 3 });
  });

  it("is called by middleware with an observer, which reports the request", async () => {
    const observer = createObserver();
    const events = decisionsOf(observer);
    const { calls, own } = decorated();
    const handler = rateLimit({ limiter: own, key: () => "k", observer })(ok);
    for (const status of [200, 200, 429]) expect((await handler(request())).status).toBe(status);
    expect(calls.length).toBe(3);
    expect(samplesOf(observer, "decisions_total")).toEqual({ "api|allowed": 2, "api|denied": 1 });
    expect(events.length).toBe(3);
  });

  it("is called by a hybrid", async () => {
    const { calls, own } = decorated();
    await hybridRateLimiter(memoryRateLimiter(bucket("first")), own).consume("k");
    expect(calls).toEqual(["k"]);
  });
});

it("keeps consume of a third-party limiter asynchronous if it also has consumeSync", async () => {
  const allowed = { allowed: true, policy: "own", limit: 1, remaining: 0, resetAfterMs: 0, nextAfterMs: 0 } as const;
  const limiter = createObserver().wrap({
    consume: async (_key: string) => allowed,
    consumeSync: () => allowed,
  });
  const decided = limiter.consume("k");
  expect(decided).toBeInstanceOf(Promise);
  expect(await decided).toBe(allowed);
});

it("counts settlements, blocks and events for both observers of a limiter", async () => {
  const [own, other] = [createObserver(), createObserver()];
  const limiter = other.wrap(createLimiter({ policy: bucket("api"), observer: own }));
  const decision = await hold(limiter, "k", 3);
  if (decision.allowed) await decision.hold.settle(2);
  await limiter.consume("k");
  const penalized = other.wrap(createLimiter({ policy: penalty({ blockMs: "1m", name: "p" }), observer: own }));
  await block(penalized, "k", "1m");
  for (const observer of [own, other]) {
    expect(samplesOf(observer, "cost_total")).toMatchObject({ "api|allowed": 3 });
    expect(samplesOf(observer, "decisions_total")).toMatchObject({ "api|allowed": 2 });
    expect(samplesOf(observer, "blocks_total")).toEqual({ p: 1 });
  }
});

it("counts the decisions of a penalty that is used alone", async () => {
  const observer = createObserver();
  const limiter = createLimiter({ policy: penalty({ blockMs: "1m", name: "p" }), observer });
  await limiter.consume("k");
  await block(limiter, "k", "1m");
  await limiter.consume("k");
  expect(samplesOf(observer, "decisions_total")).toEqual({ "p|allowed": 1, "p|blocked": 1 });
});
