/** A real scrape (O1): the numbers in a running Prometheus are exactly those of the requests that were sent. */
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Prometheus, promtool, startPrometheus } from "../../test/servers/prometheus.js";
import { type RedisServer, startRedis } from "../../test/servers/redis-server.js";
import { until } from "../../test/servers/until.js";
import {
  expectedByPolicy,
  expectedCalls,
  expectedRequests,
  PLANS,
  sendRequests,
  sendWhileDown,
  startObservedApp,
} from "./observed-app.ts";

let server: RedisServer;
let redis: Redis;
let app: Awaited<ReturnType<typeof startObservedApp>>;
let prometheus: Prometheus;

beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.port, { maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false });
  redis.on("error", () => {});
  app = await startObservedApp(redis);
  prometheus = await startPrometheus(`
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: app
    static_configs:
      - targets: ["127.0.0.1:${app.port}"]
`);
});

afterAll(async () => {
  await prometheus?.stop();
  await app?.close();
  redis?.disconnect();
  await server?.stop();
});

/** The values of a metric, by the values of its labels. */
async function seriesOf(expr: string, ...labels: string[]): Promise<Record<string, number>> {
  const samples = await prometheus.query(expr);
  return Object.fromEntries(
    samples.map(({ metric, value }) => [labels.map((label) => metric[label] ?? "").join(" "), value]),
  );
}

const total = async (expr: string) => (await prometheus.query(`sum(${expr})`))[0]?.value;

describe("a real scrape", () => {
  it("counts every request of four rules with five outcomes", async () => {
    const { up, down } = expectedCalls();
    const statuses = await sendRequests(app.url);
    const denied = PLANS.reduce((sum, { account, capacity }) => sum + account - capacity, 0);
    expect(statuses.get(429)).toBe(denied);
    await server.stop();
    expect(await sendWhileDown(app.url)).toEqual(new Set([503]));

    await until("Prometheus has not scraped the last request", async () => {
      const seen = await total("sluice_requests_total");
      return seen === up + down ? undefined : `${seen} of ${up + down} requests`;
    });
    const requests = await seriesOf("sluice_requests_total", "rule", "outcome");
    expect(requests).toEqual(expectedRequests());
    expect(Object.keys(requests)).toHaveLength(4 * 5);
  });

  it("counts decisions and cost by policy", async () => {
    expect(await seriesOf("sluice_decisions_total", "policy", "outcome")).toEqual(expectedByPolicy("decisions"));
    expect(await seriesOf("sluice_cost_total", "policy", "outcome")).toEqual(expectedByPolicy("cost"));
  });

  it("has one duration per call of the store, in 12 buckets", async () => {
    const { up } = expectedCalls();
    expect(await seriesOf("sluice_decision_duration_seconds_count", "store")).toEqual({ redis: up });
    const buckets = await seriesOf("sluice_decision_duration_seconds_bucket", "le");
    expect(Object.keys(buckets)).toHaveLength(12 + 1);
    expect(buckets["+Inf"]).toBe(up);
    const [median] = await prometheus.query("histogram_quantile(0.5, sluice_decision_duration_seconds_bucket)");
    expect(median?.value).toBeGreaterThan(0);
  });

  it("has the state of the store, its errors, and the decisions without it", async () => {
    const { down } = expectedCalls();
    expect(await seriesOf("sluice_store_up", "store")).toEqual({ redis: 0 });
    expect(await total("sluice_store_errors_total")).toBe(down);
    const degraded = Object.entries(expectedByPolicy("decisions")).flatMap(([labels, value]) => {
      const [policy, outcome] = labels.split(" ");
      return outcome === "unavailable" ? [[policy, value]] : [];
    });
    expect(await seriesOf("sluice_degraded_decisions_total", "policy")).toEqual(Object.fromEntries(degraded));
  });

  it("has the challenges, the most denied key and the rules", async () => {
    const issued = PLANS.map(({ name, team, capacity }) => [`${name} issued`, team - capacity]);
    expect(await seriesOf("sluice_challenges_total", "rule", "result")).toEqual({
      ...Object.fromEntries(issued),
      " solved": 0,
      " failed": 0,
      " provider-down": 0,
    });
    const rates = await seriesOf("sluice_top_key_denied_per_second", "rule");
    expect(Object.keys(rates).sort()).toEqual(PLANS.map(({ name }) => name).sort());
    expect(await total("sluice_rules_info")).toBe(1);
    expect(await seriesOf("sluice_rules_reloads_total", "result")).toEqual({ applied: 0, rejected: 0 });
  });

  it("passes promtool check metrics, and contains no key", async () => {
    const text = await (await fetch(`${app.url}/metrics`)).text();
    expect(await promtool(["check", "metrics"], text)).toBe("");
    expect(text).not.toContain("canary");
    expect(text).not.toContain("127.0.0.1");
  });
});
