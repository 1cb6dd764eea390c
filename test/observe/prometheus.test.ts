/** Tests of the metrics in prom-client. */
import { AggregatorRegistry, Counter, Registry } from "prom-client";
import { createLimiter } from "sluice";
import { createObserver } from "sluice/observe";
import { prometheusMetrics } from "sluice/prometheus";
import { redisRateLimiter } from "sluice/redis";
import { describe, expect, it } from "vitest";
import { redis } from "../redis/own-redis.ts";
import { withRedis } from "../servers/needs.ts";

function observed(options: { prefix?: string; register?: Registry } = {}) {
  const observer = createObserver();
  const { register = new Registry(), ...others } = options;
  prometheusMetrics(observer, { register, ...others });
  const policy = { capacity: 2, tokensPerSecond: 0.01, name: "api" };
  const limiter = createLimiter({ policy, observer });
  return { observer, register, limiter };
}

const linesOf = async (register: { metrics(): Promise<string> }, start: string) =>
  (await register.metrics()).split("\n").filter((line) => line.startsWith(start));

describe("prometheusMetrics", () => {
  it("exports the counters as they are when they are scraped", async () => {
    const { register, limiter } = observed();
    for (let i = 0; i < 5; i++) limiter.consumeSync("a");
    const expected = (denied: number) => [
      'sluice_decisions_total{policy="api",outcome="allowed"} 2',
      `sluice_decisions_total{policy="api",outcome="denied"} ${denied}`,
    ];
    expect(await linesOf(register, "sluice_decisions_total")).toEqual(expected(3));
    limiter.consumeSync("a");
    expect(await linesOf(register, "sluice_decisions_total")).toEqual(expected(4));
    expect(await linesOf(register, "# TYPE sluice_decisions_total")).toEqual(["# TYPE sluice_decisions_total counter"]);
  });

  it("exports durations as a histogram", withRedis, async () => {
    const { observer, register } = observed();
    const limiter = redisRateLimiter(redis, { capacity: 9, tokensPerSecond: 1, name: "scraped" }, { observer });
    for (let i = 0; i < 3; i++) await limiter.consume("a");
    const lines = await linesOf(register, "sluice_decision_duration_seconds");
    expect(lines).toHaveLength(12 + 1 + 2);
    expect(lines).toContain('sluice_decision_duration_seconds_bucket{le="1",store="redis"} 3');
    expect(lines).toContain('sluice_decision_duration_seconds_bucket{le="+Inf",store="redis"} 3');
    expect(lines).toContain('sluice_decision_duration_seconds_count{store="redis"} 3');
  });

  it("exports the OpenMetrics format", async () => {
    const { limiter, register } = observed();
    register.setContentType(Registry.OPENMETRICS_CONTENT_TYPE as never);
    limiter.consumeSync("a");
    for (let i = 0; i < 2; i++) {
      const text = await register.metrics();
      expect(text).toContain("# TYPE sluice_decisions counter\n");
      expect(text).toContain('sluice_decisions_total{policy="api",outcome="allowed"} 1\n');
      expect(text.endsWith("# EOF\n")).toBe(true);
    }
  });

  it("adds up the workers of a cluster, and takes the worst state of the store", async () => {
    const workers = [observed(), observed()];
    for (const { limiter } of workers) limiter.consumeSync("a");
    const metrics = await Promise.all(workers.map(({ register }) => register.getMetricsAsJSON()));
    const joined = AggregatorRegistry.aggregate(metrics);
    expect(await linesOf(joined, "sluice_decisions_total")).toEqual([
      'sluice_decisions_total{policy="api",outcome="allowed"} 2',
    ]);
  });

  it("escapes labels", async () => {
    const { observer, register } = observed();
    const limiter = createLimiter({ policy: { capacity: 1, tokensPerSecond: 1, name: 'a "b" \\ c' }, observer });
    limiter.consumeSync("a");
    expect(await linesOf(register, "sluice_decisions_total")).toEqual([
      'sluice_decisions_total{policy="a \\"b\\" \\\\ c",outcome="allowed"} 1',
    ]);
  });

  it("counts further policies as other, with one warning, and stays below 5000 series", async () => {
    const { observer, register } = observed();
    const warnings: string[] = [];
    observer.on((event) => event.type === "warning" && warnings.push(event.message));
    for (let i = 0; i < 1000; i++) {
      createLimiter({ policy: { capacity: 1, tokensPerSecond: 1, name: `customer ${i}` }, observer }).consumeSync("a");
    }
    const lines = await linesOf(register, "sluice_decisions_total");
    // One of the 714 rows is the policy of `observed`, which has decided nothing.
    expect(lines).toHaveLength(713);
    expect(lines).toContain(`sluice_decisions_total{policy="other",outcome="allowed"} ${1000 - 712}`);
    expect(warnings).toEqual([expect.stringMatching(/^There are more than 714 policies, so further ones are counted/)]);
  });

  it("rejects a second registration with a sentence, and registers nothing", () => {
    const { observer, register } = observed();
    expect(() => prometheusMetrics(observer, { register })).toThrow(
      'prometheusMetrics: "sluice_requests_total" is already registered; set a different prefix.',
    );
    prometheusMetrics(observer, { register, prefix: "edge_" });
    expect(register.getSingleMetric("edge_requests_total")).toBeDefined();
    const taken = new Registry();
    new Counter({ name: "sluice_blocks_total", help: "taken", registers: [taken] });
    expect(() => prometheusMetrics(observer, { register: taken })).toThrow(
      '"sluice_blocks_total" is already registered',
    );
    expect(taken.getMetricsAsArray()).toHaveLength(1);
  });

  it("rejects invalid options with a sentence", () => {
    const observer = createObserver();
    const register = new Registry();
    expect(() => prometheusMetrics({} as never, { register })).toThrow("observer must be made by createObserver()");
    expect(() => prometheusMetrics(observer, {} as never)).toThrow("register must be a registry of prom-client");
    expect(() => prometheusMetrics(observer, { register, prefix: "a-b" })).toThrow(
      "prefix must be the start of a metric",
    );
    expect(() => prometheusMetrics(observer, { registry: register } as never)).toThrow('"registry" is not an option');
  });

  it("reads 500 rules within 20 ms", async () => {
    const { observer, register } = observed();
    for (let i = 0; i < 500; i++) {
      const limiter = createLimiter({ policy: { capacity: 1, tokensPerSecond: 1, name: `rule ${i}` }, observer });
      for (let k = 0; k < 2; k++) limiter.consumeSync("a");
    }
    let fastest = Number.POSITIVE_INFINITY;
    for (let i = 0; i < 20; i++) {
      const start = performance.now();
      await register.metrics();
      fastest = Math.min(fastest, performance.now() - start);
    }
    expect(fastest).toBeLessThan(20);
  });
});
