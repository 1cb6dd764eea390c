/** Dashboards and alerts (O11): valid PromQL, and no metric or label that a real scrape does not have. */
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { AggregationTemporality, InMemoryMetricExporter, type MeterProvider } from "@opentelemetry/sdk-metrics";
import { Redis } from "ioredis";
import { Registry } from "prom-client";
import { otelMetrics } from "sluice/otel";
import { prometheusMetrics } from "sluice/prometheus";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Prometheus, promtool, startPrometheus } from "../../test/servers/prometheus.js";
import { type RedisServer, startRedis } from "../../test/servers/redis-server.js";
import { until } from "../../test/servers/until.js";
import { observeEverything } from "./all-metrics.ts";
import { parseExpression, withoutVariables } from "./promql.ts";
import { collectNames } from "./translate-names.ts";

interface Dashboard {
  readonly panels: readonly { title: string; targets: readonly { expr: string }[] }[];
}

interface Rule {
  readonly name: string;
  readonly query: string;
  readonly health: string;
  readonly lastError?: string;
  readonly type: "alerting" | "recording";
  readonly labels?: Record<string, string>;
  readonly annotations?: Record<string, string>;
}

const at = (path: string) => fileURLToPath(new URL(`../../docs/${path}`, import.meta.url));
const dashboardOf = (name: string): Dashboard => JSON.parse(readFileSync(at(`grafana/${name}.json`), "utf8"));
const expressionsOf = (name: string) =>
  dashboardOf(name).panels.flatMap(({ title, targets }) => targets.map(({ expr }) => ({ title, expr })));

const { homepage } = JSON.parse(readFileSync(at("../package.json"), "utf8")) as { homepage: string };
const RULES = at("prometheus/sluice.rules.yml");
/** Labels that Prometheus adds, and that of histogram buckets. */
const ADDED_LABELS = ["job", "instance", "le"];

let redisServer: RedisServer;
let redis: Redis;
let prometheus: Prometheus;
const register = new Registry();
const server = createServer(async (_request, response) => {
  response.setHeader("Content-Type", register.contentType);
  response.end(await register.metrics());
});
/** The metrics and labels of the scrape. */
const scraped = { metrics: new Set<string>(), labels: new Set<string>(ADDED_LABELS) };

beforeAll(async () => {
  redisServer = await startRedis();
  redis = new Redis(redisServer.port);
  prometheusMetrics(await observeEverything(redis), { register });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  for (const [, metric = "", labels = ""] of text.matchAll(/^(\w+)(?:\{(.*)\})? \S+$/gm)) {
    scraped.metrics.add(metric);
    for (const [, label = ""] of labels.matchAll(/(\w+)="/g)) scraped.labels.add(label);
  }
  prometheus = await startPrometheus(`
global:
  scrape_interval: 1s
  evaluation_interval: 1s
rule_files: ["${RULES}"]
scrape_configs:
  - job_name: app
    static_configs:
      - targets: ["127.0.0.1:${port}"]
`);
});

afterAll(async () => {
  await prometheus?.stop();
  server.close();
  server.closeAllConnections();
  redis?.disconnect();
  await redisServer?.stop();
});

/** The rules as a running Prometheus has loaded them. */
async function loadedRules(): Promise<Rule[]> {
  const { groups } = (await prometheus.read("rules")) as { groups: { rules: Rule[] }[] };
  return groups.flatMap(({ rules }) => rules);
}

it("finds what is wrong with an expression", () => {
  expect(parseExpression('sum by (rule) (rate(up{outcome="a"}[1m])').errors).not.toEqual([]);
  const { errors, metrics, labels } = parseExpression('sum by (rule) (rate(up{outcome="$rule"}[$__rate_interval]))');
  expect([errors, [...metrics], [...labels]]).toEqual([[], ["up"], ["rule", "outcome"]]);
});

describe("docs/prometheus/sluice.rules.yml", () => {
  it("passes promtool check rules", async () => {
    expect(await promtool(["check", "rules", RULES])).toContain("SUCCESS: 9 rules found");
  });

  it("passes its unit tests: each alert fires, and does not fire", async () => {
    const output = await promtool(["test", "rules", at("prometheus/sluice.rules.test.yml")]);
    expect(output).toContain("SUCCESS");
    const tests = readFileSync(at("prometheus/sluice.rules.test.yml"), "utf8");
    const tested = [...tests.matchAll(/alertname: (\w+)\n\s+exp_alerts:( \[\])?/g)].map(
      ([, name, isEmpty]) => `${name} ${isEmpty ? "silent" : "firing"}`,
    );
    const alerts = (await loadedRules()).filter(({ type }) => type === "alerting").map(({ name }) => name);
    expect(alerts).toHaveLength(7);
    for (const name of alerts) expect(tested).toEqual(expect.arrayContaining([`${name} silent`, `${name} firing`]));
  });

  it("has a severity, a summary, a description and a page for each alert", async () => {
    const alerts = (await loadedRules()).filter(({ type }) => type === "alerting");
    const page = readFileSync(at("guide/alerting.md"), "utf8");
    for (const { name, labels = {}, annotations = {} } of alerts) {
      expect(["warning", "critical"], name).toContain(labels.severity);
      expect(annotations.summary, name).not.toBe("");
      expect(annotations.description?.length, name).toBeGreaterThan(80);
      expect(annotations.runbook_url, name).toBe(`${homepage}guide/alerting#${name.toLowerCase()}`);
      expect(page, name).toContain(`\n## ${name}\n`);
    }
  });

  it("is evaluated by Prometheus without errors", async () => {
    await until("Prometheus has not evaluated the rules", async () => {
      const unknown = (await loadedRules()).filter(({ health }) => health === "unknown");
      return unknown.length === 0 ? undefined : unknown.map(({ name }) => name).join(", ");
    });
    for (const { name, health, lastError } of await loadedRules()) expect(health, `${name}: ${lastError}`).toBe("ok");
  });

  it("uses metrics and labels of the scrape only", async () => {
    const rules = await loadedRules();
    const recorded = rules.filter(({ type }) => type === "recording").map(({ name }) => name);
    for (const { name, query } of rules) {
      const { errors, metrics, labels } = parseExpression(query);
      expect(errors, name).toEqual([]);
      expect(metrics.size, name).toBeGreaterThan(0);
      for (const metric of metrics) expect([...scraped.metrics, ...recorded], name).toContain(metric);
      for (const label of labels) expect([...scraped.labels], name).toContain(label);
    }
  });
});

describe("docs/grafana/sluice.json", () => {
  it.each(expressionsOf("sluice"))("$title: $expr", async ({ expr }) => {
    const { errors, metrics, labels } = parseExpression(expr);
    expect(errors).toEqual([]);
    expect(metrics.size).toBeGreaterThan(0);
    for (const metric of metrics) expect([...scraped.metrics]).toContain(metric);
    for (const label of labels) expect([...scraped.labels]).toContain(label);
    // Rates need two scrapes.
    await until("Prometheus has no data for the panel", async () =>
      (await prometheus.query(withoutVariables(expr))).length > 0 ? undefined : "no series",
    );
  });
});

describe("docs/grafana/sluice-otel.json", () => {
  it("uses the names that OpenTelemetry's metrics have in Prometheus only", async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
    const names = await collectNames(exporter, async (meterProvider: MeterProvider) => {
      await observeEverything(redis, (observer) => otelMetrics(observer, { meterProvider }));
    });
    for (const { title, expr } of expressionsOf("sluice-otel")) {
      const { errors, metrics, labels } = parseExpression(expr);
      expect(errors, title).toEqual([]);
      expect(metrics.size, title).toBeGreaterThan(0);
      for (const metric of metrics) expect([...names.metrics], title).toContain(metric);
      for (const label of labels) expect([...names.labels, ...ADDED_LABELS], title).toContain(label);
    }
  });

  it("has the panels of the other dashboard", () => {
    const titles = (name: string) => dashboardOf(name).panels.map(({ title }) => title);
    expect(titles("sluice-otel")).toEqual(titles("sluice"));
  });
});
