/** The example examples/monitoring with a real Prometheus and its own prometheus.yml. Needs `npm run build`. */
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Prometheus, promtool, startPrometheus } from "../../test/servers/prometheus.js";
import { temporaryDir } from "../../test/servers/reaper.js";
import { type RedisServer, startRedis } from "../../test/servers/redis-server.js";
import { until } from "../../test/servers/until.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = join(root, "examples/monitoring");
const read = (file: string) => readFileSync(join(folder, file), "utf8");

let redis: RedisServer;
let prometheus: Prometheus;
let example: ChildProcess;
const lines: string[] = [];
let url = "";
let config = "";

beforeAll(async () => {
  redis = await startRedis();
  const env = { ...process.env, PORT: "0", REDIS_URL: redis.url, OBSERVER_SECRET: "a secret of the example" };
  example = spawn(process.execPath, ["examples/run.js", "monitoring"], {
    cwd: root,
    env,
    stdio: ["ignore", "pipe", 2],
  });
  if (example.stdout) createInterface(example.stdout).on("line", (line) => lines.push(line));
  await until("the example does not listen", async () => {
    url = /http:\/\/127\.0\.0\.1:\d+/.exec(lines.join("\n"))?.[0] ?? "";
    return url === "" ? lines.join("\n") : undefined;
  });
  config = read("prometheus.yml")
    .replace("host.docker.internal:8787", new URL(url).host)
    .replace('"sluice.rules.yml"', JSON.stringify(join(root, "docs/prometheus/sluice.rules.yml")));
  prometheus = await startPrometheus(config.replace("scrape_interval: 5s", "scrape_interval: 1s"));
});

afterAll(async () => {
  example?.kill("SIGKILL");
  await prometheus?.stop();
  await redis?.stop();
});

describe("examples/monitoring", () => {
  it("has a prometheus.yml that passes promtool check config", async () => {
    const dir = temporaryDir();
    writeFileSync(join(dir, "prometheus.yml"), config);
    expect(await promtool(["check", "config", join(dir, "prometheus.yml")])).toContain("9 rules found");
    rmSync(dir, { recursive: true });
  });

  it("is scraped with the numbers of its requests", async () => {
    const statuses: number[] = [];
    const send = async (path: string, tenant: string, method = "GET") =>
      statuses.push((await fetch(`${url}${path}`, { method, headers: { "X-Tenant": tenant } })).status);
    for (let i = 0; i < 8; i++) await send("/reports", "canary", "POST");
    for (let i = 0; i < 7; i++) await send("/export", "canary");
    for (let i = 0; i < 4; i++) await send("/search", "canary");
    const isDenied = (status: number) => status === 429;
    expect(statuses.slice(8).some(isDenied)).toBe(false);
    const denied = statuses.filter(isDenied).length;
    expect(denied).toBeGreaterThan(0);
    await until("Prometheus has not scraped the last request", async () => {
      const [total] = await prometheus.query("sum(sluice_requests_total)");
      return total?.value === statuses.length ? undefined : `${total?.value} of ${statuses.length}`;
    });
    const samples = await prometheus.query("sluice_requests_total");
    const counts = Object.fromEntries(
      samples.map(({ metric, value }) => [`${metric.job} ${metric.rule} ${metric.outcome}`, value]),
    );
    expect(counts).toEqual({
      "api report allowed": 8 - denied,
      "api report denied": denied,
      "api export allowed": 5,
      "api export would-deny": 2,
      "api search allowed": 4,
    });
    expect(await prometheus.query("sluice_store_up")).toMatchObject([{ metric: { store: "redis" }, value: 1 }]);
  });

  it("has alerts in Prometheus, which are quiet", async () => {
    const { groups } = (await prometheus.read("rules")) as {
      groups: { rules: { type: string; state?: string; name: string }[] }[];
    };
    const alerts = groups.flatMap(({ rules }) => rules).filter(({ type }) => type === "alerting");
    expect(alerts).toHaveLength(7);
    for (const { name, state } of alerts) expect(state, name).not.toBe("firing");
  });

  it("logs the denied requests with a tag in place of the tenant", async () => {
    const logged = lines.filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
    expect(logged.map(({ msg, rule }) => `${msg} ${rule}`)).toEqual(
      expect.arrayContaining(["denied report", "would-deny export"]),
    );
    for (const line of logged) expect(line.key).toMatch(/^[0-9a-f]{8}$/);
    expect(lines.join("\n")).not.toContain("canary");
    // The README shows a line with the same members.
    const [shown] = /^\{.*\}$/m.exec(read("README.md")) ?? [];
    expect(Object.keys(JSON.parse(shown ?? "{}"))).toEqual(Object.keys(logged[0]));
  });

  it("mounts files that exist", () => {
    const mounts = [...read("docker-compose.yml").matchAll(/^ +- (\.[^:]+):\/[^:]+:ro$/gm)].map(([, path]) => path);
    expect(mounts).toHaveLength(5);
    for (const path of mounts) expect(existsSync(join(folder, path as string)), path).toBe(true);
  });
});
