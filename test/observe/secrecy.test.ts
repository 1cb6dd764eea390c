/** Keys, IP addresses, API keys and email addresses appear in no output of an observer (O3): 10 000 requests with canaries. */
import { inspect } from "node:util";
import { Registry } from "prom-client";
import { abuse } from "sluice/abuse";
import { type FetchRateLimitOptions, idempotent, rateLimit } from "sluice/fetch";
import { memoryIdempotencyStore } from "sluice/idempotency";
import { createObserver, dashboard, jsonLog } from "sluice/observe";
import { prometheusMetrics } from "sluice/prometheus";
import { redisStore } from "sluice/redis";
import { defineRules } from "sluice/rules";
import { expect, it } from "vitest";
import { redis } from "../redis/own-redis.ts";
import { withRedis } from "../servers/needs.ts";

const REQUESTS = 10_000;
const ADDRESS = "192.0.2.77";
const EMAIL = "canary@example.com";
const API_KEY = "sk_live_canary_4713";
const IDEMPOTENCY_KEY = "canary-idempotency-key";
const CANARIES = [ADDRESS, "192.0.2", EMAIL, "canary%40", "canary", API_KEY, "sk_live"];

it("shows no canary in events, log lines, metrics, labels and on the dashboard", withRedis, async () => {
  const outputs: string[] = [];
  const observer = createObserver({
    log: jsonLog((line) => void outputs.push(line), { allowed: 1, maxPerSecond: Number.POSITIVE_INFINITY }),
  });
  let events = 0;
  observer.on((event) => {
    events++;
    outputs.push(JSON.stringify(event), inspect(event, { depth: 9, showHidden: true }));
  });
  const register = new Registry();
  prometheusMetrics(observer, { register });

  const rules = defineRules(
    {
      plans: ["free", "pro"],
      defaultPlan: "free",
      rules: [
        { name: "login", match: "POST /login", limits: { ip: "20/m", "ip+account": "5/m" } },
        { name: "user", match: "GET /users/:email", limits: { client: { free: "50/m", pro: "500/m" } } },
        { name: "shadow", match: "/shadow/*", mode: "shadow", limits: { ip: "50/m", "ip+account": "5/m" } },
      ],
      fallback: { limits: { ip: "100/m" } },
    },
    {
      store: redisStore(redis),
      prefix: "secrecy",
      overrides(limit, key) {
        throw new Error(`no override of ${limit} for ${key}`);
      },
      onEvent() {},
    },
  );
  const options: FetchRateLimitOptions = {
    rules,
    facts: { account: () => EMAIL, plan: () => "canary-plan" },
    identity: { trustedProxies: 1, header: "x-client", apiKey: { verify: (key) => key === API_KEY } },
    abuse: abuse({ penalty: { strikes: 3, block: "1s" }, traps: ["/wp-login.php"] }),
    onEvent() {},
    observer,
  };
  const store = memoryIdempotencyStore();
  const safe = idempotent({ store, scope: () => EMAIL, observer, onEvent() {}, replayLimit: "100/s" });
  const handler = safe(
    rateLimit(options)((request) => {
      // Some responses are not stored, which is an event with the key.
      if (request.url.endsWith("large")) return new Response("x".repeat(100_000));
      if (request.url.endsWith("error")) throw new Error(`canary ${EMAIL}`);
      return new Response("ok");
    }),
  );
  const paths = [
    "/login",
    `/users/${EMAIL}`,
    "/users/canary%40example.com?key=canary",
    `/shadow/${EMAIL}`,
    "/wp-login.php",
  ];
  const statuses = new Map<number, number>();
  for (let i = 0; i < REQUESTS; i++) {
    const path = i % 50 === 49 ? ["/large", "/error"][(i / 50) & 1] : paths[i % paths.length];
    const method = path === "/login" || i % 50 === 49 ? "POST" : "GET";
    const headers: Record<string, string> = {
      "x-client": `192.0.2.${i % 200}`,
      "user-agent": "canary-agent",
      authorization: `Bearer ${API_KEY}`,
      ...(i % 3 === 0 && { "x-api-key": API_KEY }),
      ...(method === "POST" && { "idempotency-key": `${IDEMPOTENCY_KEY}-${i % 700}` }),
    };
    const request = new Request(`http://canary.example${path}`, { method, headers });
    const response = await Promise.resolve(handler(request)).catch(() => new Response(null, { status: 500 }));
    statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
  }
  // Every kind of outcome was part of the run.
  expect([...statuses.keys()].sort()).toEqual(expect.arrayContaining([200, 404, 429, 500]));
  expect(events).toBeGreaterThan(5000);

  const page = dashboard(observer, { authorize: () => true, rules });
  for (const path of ["", "/data", "/app.js"]) {
    const response = await page(new Request(`http://localhost/_sluice${path}`));
    expect(response.status).toBe(200);
    outputs.push(JSON.stringify([...response.headers]), await response.text());
  }
  page.dispose();
  outputs.push(JSON.stringify(observer.metrics()), JSON.stringify(observer.topKeys(256)), await register.metrics());
  const text = outputs.join("\n");
  for (const canary of CANARIES) {
    const at = text.indexOf(canary);
    expect(at, `${canary} in ${text.slice(Math.max(0, at - 200), at + 100)}`).toBe(-1);
  }
  await rules.dispose();
});
