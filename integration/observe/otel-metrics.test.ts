/** Metrics through the OpenTelemetry SDK (O2): names, units, attributes and values. */
import { metrics as metricsApi } from "@opentelemetry/api";
import { PrometheusExporter } from "@opentelemetry/exporter-prometheus";
import {
  AggregationTemporality,
  DataPointType,
  type Histogram,
  InMemoryMetricExporter,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { Redis } from "ioredis";
import { Registry } from "prom-client";
import { createLimiter } from "sluice";
import { createObserver, type Observer } from "sluice/observe";
import { otelMetrics } from "sluice/otel";
import { prometheusMetrics } from "sluice/prometheus";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../../test/servers/free-port.js";
import { type RedisServer, startRedis } from "../../test/servers/redis-server.js";
import { observeEverything } from "./all-metrics.ts";
import { sendRequests, startObservedApp } from "./observed-app.ts";
import { translateLabel, translateMetric } from "./translate-names.ts";

let server: RedisServer;
let redis: Redis;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.port);
});

afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

/** A provider that exports into memory. */
function inMemory() {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const provider = new MeterProvider({ readers: [reader] });
  const collect = async (): Promise<readonly MetricData[]> => {
    exporter.reset();
    await provider.forceFlush();
    const [collected] = exporter.getMetrics();
    return collected?.scopeMetrics.find(({ scope }) => scope.name === "sluice")?.metrics ?? [];
  };
  return { provider, collect };
}

const find = (collected: readonly MetricData[], name: string) =>
  collected.find(({ descriptor }) => descriptor.name === name);

/** The values of a metric, by their attributes as sorted text. */
function valuesOf(collected: readonly MetricData[], name: string): Record<string, unknown> {
  const points = find(collected, name)?.dataPoints ?? [];
  return Object.fromEntries(points.map(({ attributes, value }) => [JSON.stringify(attributes), value]));
}

/** The same of the observer, which the exported ones have to equal. */
function countedOf(observer: Observer, name: string): Record<string, unknown> {
  const samples = observer.metrics().find((one) => one.name === name)?.samples ?? [];
  return Object.fromEntries(
    samples.map(({ labels, value }) => [
      JSON.stringify(Object.fromEntries(Object.entries(labels).map(([label, text]) => [`sluice.${label}`, text]))),
      value,
    ]),
  );
}

/** Name, unit, kind and name in Prometheus of every instrument. */
const INSTRUMENTS = [
  ["sluice.requests", "{request}", "counter", "sluice_requests_total"],
  ["sluice.decisions", "{decision}", "counter", "sluice_decisions_total"],
  ["sluice.cost", "{unit}", "counter", "sluice_cost_total"],
  ["sluice.decision.duration", "s", "histogram", "sluice_decision_duration_seconds"],
  ["sluice.store.up", "", "gauge", "sluice_store_up"],
  ["sluice.store.errors", "{error}", "counter", "sluice_store_errors_total"],
  ["sluice.degraded_decisions", "{decision}", "counter", "sluice_degraded_decisions_total"],
  ["sluice.memory.keys", "{key}", "gauge", "sluice_memory_keys"],
  ["sluice.memory.evictions", "{key}", "counter", "sluice_memory_evictions_total"],
  ["sluice.top_key.denied", "{denial}/s", "gauge", "sluice_top_key_denied_per_second"],
  ["sluice.blocks", "{block}", "counter", "sluice_blocks_total"],
  ["sluice.challenges", "{challenge}", "counter", "sluice_challenges_total"],
  ["sluice.idempotency", "{request}", "counter", "sluice_idempotency_total"],
  ["sluice.rules.info", "", "gauge", "sluice_rules_info"],
  ["sluice.rules.reloads", "{reload}", "counter", "sluice_rules_reloads_total"],
] as const;

/** The kind of a metric. Counters only rise. */
function kindOf(metric: MetricData): string {
  if (metric.dataPointType === DataPointType.HISTOGRAM) return "histogram";
  return metric.dataPointType === DataPointType.SUM && metric.isMonotonic ? "counter" : "gauge";
}

describe("otelMetrics", () => {
  it("exports every number of the app with its name, unit and attributes", async () => {
    const app = await startObservedApp(redis);
    const { provider, collect } = inMemory();
    otelMetrics(app.observer, { meterProvider: provider });
    await sendRequests(app.url);
    const collected = await collect();
    const checked = ["requests", "decisions", "cost", "challenges"];
    for (const name of checked) {
      const exported = valuesOf(collected, `sluice.${name}`);
      expect(exported, name).toEqual(countedOf(app.observer, `${name}_total`));
      expect(Object.keys(exported).length, name).toBeGreaterThan(3);
    }
    expect(valuesOf(collected, "sluice.requests")).toMatchObject({
      '{"sluice.rule":"search","sluice.outcome":"would-deny"}': 6,
    });
    expect(valuesOf(collected, "sluice.store.up")).toEqual({ '{"sluice.store":"redis"}': 1 });
    const counted = app.observer.metrics().find(({ name }) => name === "decision_duration_seconds");
    const durations = valuesOf(collected, "sluice.decision.duration");
    expect(Object.keys(durations)).toEqual(['{"sluice.store":"redis"}']);
    const [{ count, sum, buckets }] = Object.values(durations) as [Histogram];
    expect(buckets.boundaries).toEqual(counted?.bounds);
    expect(count).toBe(counted?.samples[0]?.value);
    expect(sum).toBeCloseTo(counted?.samples[0]?.sum as number, 9);
    expect(JSON.stringify(collected)).not.toMatch(/canary|127\.0\.0\.1/);
    await app.close();
    await provider.shutdown();
  });

  it("has the names, units and kinds that are documented, and all of them have a name in Prometheus", async () => {
    const { provider, collect } = inMemory();
    const observer = await observeEverything(redis, (created) => otelMetrics(created, { meterProvider: provider }));
    const collected = await collect();
    const found = collected.map((metric) => {
      const { name, unit } = metric.descriptor;
      const kind = kindOf(metric);
      return [name, unit, kind, translateMetric({ name, unit, isCounter: kind === "counter" })];
    });
    expect(found.sort()).toEqual(INSTRUMENTS.map((row) => [...row]).sort());
    for (const { descriptor, dataPoints } of collected) expect(dataPoints, descriptor.name).not.toEqual([]);
    const register = new Registry();
    prometheusMetrics(observer, { register });
    const registered = (await register.getMetricsAsJSON()).map(({ name }) => name);
    expect(INSTRUMENTS.map(([, , , name]) => name).sort()).toEqual(registered.sort());
    await provider.shutdown();
  });

  it("uses the global provider by default", async () => {
    const { provider, collect } = inMemory();
    metricsApi.setGlobalMeterProvider(provider);
    const observer = createObserver();
    otelMetrics(observer);
    createLimiter({ policy: { capacity: 1, tokensPerSecond: 1, name: "api" }, observer }).consumeSync("a");
    expect(valuesOf(await collect(), "sluice.decisions")).toEqual({
      '{"sluice.policy":"api","sluice.outcome":"allowed"}': 1,
    });
    metricsApi.disable();
    await provider.shutdown();
  });

  it("is scraped by the Prometheus exporter of OpenTelemetry, which adds no units to names", async () => {
    const port = await freePort();
    const exporter = new PrometheusExporter({ host: "127.0.0.1", port });
    const provider = new MeterProvider({ readers: [exporter] });
    const observer = await observeEverything(redis, (created) => otelMetrics(created, { meterProvider: provider }));
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    const names = [...text.matchAll(/^# TYPE (sluice_\w+)/gm)].map(([, name]) => name as string);
    const withoutUnits = INSTRUMENTS.map(([name, , kind]) =>
      translateMetric({ name, unit: "", isCounter: kind === "counter" }),
    );
    expect(names.sort()).toEqual(withoutUnits.sort());
    const labels = [...text.matchAll(/^sluice_\w+\{([^}]*)\}/gm)].flatMap(([, list = ""]) =>
      [...list.matchAll(/(\w+)="/g)].map(([, label]) => label as string),
    );
    const attributes = observer.metrics().flatMap(({ labelNames }) => labelNames.map((name) => `sluice.${name}`));
    const known = [
      ...attributes.map(translateLabel),
      "otel_scope_name",
      "otel_scope_version",
      "otel_scope_schema_url",
      "le",
    ];
    for (const label of labels) expect(known).toContain(label);
    await provider.shutdown();
  });

  it("rejects invalid options with a sentence", () => {
    const observer = createObserver();
    expect(() => otelMetrics({} as never)).toThrow("observer must be made by createObserver()");
    expect(() => otelMetrics(observer, { meterProvider: {} as never })).toThrow("meterProvider must be");
    expect(() => otelMetrics(observer, { provider: {} } as never)).toThrow('"provider" is not an option');
  });
});
