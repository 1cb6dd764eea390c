/** An Express app with four rules on Redis, an observer and `/metrics`, and the exact numbers that requests to it lead to. */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import express from "express";
import type { Redis } from "ioredis";
import { Registry } from "prom-client";
import { abuse, challenge, turnstile } from "sluice/abuse";
import { rateLimit } from "sluice/express";
import { createObserver } from "sluice/observe";
import { prometheusMetrics } from "sluice/prometheus";
import { redisStore } from "sluice/redis";
import { defineRules } from "sluice/rules";

/** A rule, and how many requests the driver sends with each fact. All limits but that per IP address allow `capacity`. */
export interface RulePlan {
  readonly name: string;
  readonly weight: number;
  readonly capacity: number;
  /** Requests with an account, whose limit is enforced. */
  readonly account: number;
  /** Requests with a tenant, whose limit has the action "flag". */
  readonly tenant: number;
  /** Requests with a team, whose limit ends in a challenge. */
  readonly team: number;
  /** Requests while Redis is down. */
  readonly down: number;
}

export const PLANS: readonly RulePlan[] = [
  { name: "search", weight: 1, capacity: 3, account: 11, tenant: 9, team: 8, down: 5 },
  { name: "report", weight: 2, capacity: 5, account: 6, tenant: 17, team: 12, down: 3 },
  { name: "upload", weight: 3, capacity: 2, account: 23, tenant: 4, team: 19, down: 7 },
  { name: "login", weight: 4, capacity: 7, account: 13, tenant: 8, team: 9, down: 2 },
];

const FACTS = ["account", "tenant", "team"] as const;

/** Starts the app on a free port. */
export async function startObservedApp(redis: Redis) {
  const observer = createObserver();
  const register = new Registry();
  prometheusMetrics(observer, { register });
  const rules = defineRules(
    {
      // Logs have no window that could end during the test.
      budgets: { api: { ip: "10000/h log" } },
      rules: PLANS.map(({ name, weight, capacity }) => {
        const limit = `${capacity}/h log` as const;
        return {
          name,
          match: `GET /${name}/:id`,
          weight,
          budgets: ["api"] as const,
          limits: { account: limit, tenant: limit, team: limit, ip: "10000/h log" },
          action: { tenant: "flag", team: "challenge" },
          onStoreError: "closed",
        } as const;
      }),
      fallback: "unlimited",
    },
    // Without cached denials, every request is a call of the store.
    { store: redisStore(redis), localDenialMs: 0, onEvent() {} },
  );
  const provider = turnstile({ siteKey: "site-key", secret: "0x4AAAAAAAsecret-of-provider" });
  const secret = ["a key of at least thirty-two bytes"] as const;
  const app = express();
  app.get("/metrics", async (_request, response) => {
    response.set("Content-Type", register.contentType).send(await register.metrics());
  });
  const fact = (name: string) => (request: express.Request) => request.get(`x-${name}`);
  app.use(
    rateLimit({
      rules,
      observer,
      abuse: abuse({ challenge: challenge({ provider, secret }) }),
      facts: { account: fact("account"), tenant: fact("tenant"), team: fact("team") },
      onEvent() {},
    }),
  );
  app.use((_request, response) => void response.send("ok"));
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    observer,
    port,
    url: `http://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections();
      server.close();
      await rules.dispose();
    },
  };
}

/** Sends the requests of all plans that need the store, one after the other, in turns. Returns how many had each status. */
export async function sendRequests(url: string): Promise<Map<number, number>> {
  const paths = PLANS.flatMap((plan) =>
    FACTS.flatMap((fact) => Array.from({ length: plan[fact] }, (_, i) => ({ i, plan, fact }))),
  );
  const statuses = new Map<number, number>();
  for (const { i, plan, fact } of paths.sort((a, b) => a.i - b.i)) {
    const response = await fetch(`${url}/${plan.name}/${i}`, { headers: { [`x-${fact}`]: "canary" } });
    await response.text();
    statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1);
  }
  return statuses;
}

/** Sends the requests of all plans while Redis is down. Returns their statuses. */
export async function sendWhileDown(url: string): Promise<Set<number>> {
  const statuses = new Set<number>();
  for (const { name, down } of PLANS) {
    for (let i = 0; i < down; i++) statuses.add((await fetch(`${url}/${name}/${i}`)).status);
  }
  return statuses;
}

/** A series with its value: the labels in the order of the metric. */
type Expected = Record<string, number>;

/** `sluice_requests_total`, by rule and outcome. */
export function expectedRequests(): Expected {
  return Object.fromEntries(
    PLANS.flatMap(({ name, capacity, account, tenant, team, down }) => [
      [`${name} allowed`, 3 * capacity],
      [`${name} denied`, account - capacity],
      [`${name} would-deny`, tenant - capacity],
      [`${name} challenged`, team - capacity],
      [`${name} unavailable`, down],
    ]),
  );
}

/** `sluice_decisions_total` or `sluice_cost_total`, by policy and outcome. */
export function expectedByPolicy(metric: "decisions" | "cost"): Expected {
  const own = PLANS.flatMap(({ name, capacity, account, tenant, team, down }) => [
    [`${name}.account allowed`, capacity],
    [`${name}.account denied`, account - capacity],
    [`${name}.tenant allowed`, capacity],
    [`${name}.tenant would-deny`, tenant - capacity],
    [`${name}.team allowed`, capacity],
    // The limit denies the request, whatever the middleware does then.
    [`${name}.team denied`, team - capacity],
    [`${name}.ip allowed`, 2 * capacity + tenant],
    [`${name}.ip unavailable`, down],
  ]);
  const budget = (amountOf: (plan: RulePlan) => number) =>
    PLANS.reduce((sum, plan) => sum + amountOf(plan) * (metric === "cost" ? plan.weight : 1), 0);
  return Object.fromEntries([
    ...own,
    ["api allowed", budget(({ capacity, tenant }) => 2 * capacity + tenant)],
    ["api unavailable", budget(({ down }) => down)],
  ]);
}

/** The number of requests while Redis is up, and while it is down. */
export function expectedCalls(): { up: number; down: number } {
  const sum = (of: (plan: RulePlan) => number) => PLANS.reduce((total, plan) => total + of(plan), 0);
  return { up: sum(({ account, tenant, team }) => account + tenant + team), down: sum(({ down }) => down) };
}
