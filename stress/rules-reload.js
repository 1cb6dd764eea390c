/**
 * Replaces rules 60 times while an Express server gets 1000 requests a second, in memory and on Redis: no request may
 * fail, and no bucket may admit more than its bound. Then checks a shadow rule beside enforced limits on Redis.
 * SLUICE_SCALE multiplies the number of reloads.
 */
import { Agent, get } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import express from "express";
import { Redis } from "ioredis";
import { rateLimit } from "../dist/express.js";
import { memoryStore } from "../dist/index.js";
import { redisStore } from "../dist/redis.js";
import { loadRules } from "../dist/rules.js";
import { startRedis } from "../test/servers/redis-server.js";
import { stepsOf } from "./steps.js";

const RELOADS = Math.max(6, Math.round(stepsOf(60)));
const RELOAD_MS = 100;
const PER_SECOND = 1000;
const TICK_MS = 10;
/** A response that takes longer counts as a failure. */
const MAX_RESPONSE_MS = 5000;
/** Time in which a bucket fills. Capacity and rate change in proportion, so that it stays the same. */
const FILL_SECONDS = 10;
const MAX_LIMIT = 200;
const MIN_LIMIT = 100;
const GOAL_MS = 50;
const GOAL_RULES = 500;
const SHADOW_REQUESTS = 1000;

/** Rules with these limits: a bucket that refills, and a log that does not within the run. */
const dataWith = (/** @type {number} */ limit, more = /** @type {object[]} */ ([])) => ({
  rules: [
    { name: "bucket", match: "/bucket", limits: { ip: `${limit}/${FILL_SECONDS}s burst ${limit}` } },
    { name: "log", match: "/log", limits: { ip: `${limit}/h log` } },
    ...more,
  ],
  fallback: { limits: { ip: "1000/s" } },
});

/** Other rules, each with three limits. */
const otherRules = (/** @type {number} */ count, /** @type {number} */ limit) =>
  Array.from({ length: count }, (_, i) => ({
    name: `r${i}`,
    match: [`GET /v1/r${i}/:id`, `POST /v1/r${i}`],
    limits: { ip: `${limit + i}/m`, global: [`${limit + i}/h fixed`, `${limit + i}/s`] },
  }));

async function startServer(/** @type {any} */ options) {
  const app = express();
  app.use(rateLimit(options));
  app.use((_request, response) => void response.send("ok"));
  const server = app.listen(0, "127.0.0.1");
  // A connection that the server closes while a request is on its way would look like a failed request.
  server.keepAliveTimeout = 60_000;
  await new Promise((resolve) => server.once("listening", resolve));
  return { port: server.address().port, close: () => server.close(() => {}).closeAllConnections() };
}

/** Requests to one server over connections that are kept alive. */
class Client {
  /** Responses by path and status, such as `/log 200`. */
  statuses = new Map();
  inFlight = new Set();
  agent = new Agent({ keepAlive: true, maxSockets: 50 });

  constructor(/** @type {number} */ port) {
    this.port = port;
  }

  send(/** @type {string} */ path) {
    const { port, agent } = this;
    const sent = new Promise((resolve) => {
      const request = get({ host: "127.0.0.1", port, path, agent, timeout: MAX_RESPONSE_MS }, (response) => {
        response.resume().once("end", () => resolve(response.statusCode));
      });
      request.once("timeout", () => request.destroy(new Error("timeout")));
      request.once("error", (error) => resolve(error.message));
    }).then((status) => {
      const name = `${path} ${status}`;
      this.statuses.set(name, (this.statuses.get(name) ?? 0) + 1);
      this.inFlight.delete(sent);
    });
    this.inFlight.add(sent);
    return sent;
  }

  count(/** @type {string} */ name) {
    return this.statuses.get(name) ?? 0;
  }

  get total() {
    return [...this.statuses.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Everything that is neither a response of the handler nor a rejection. */
  failures() {
    return [...this.statuses]
      .filter(([name]) => !/ (200|429)$/.test(name))
      .map(([name, count]) => `${count} x ${name}`);
  }

  close() {
    this.agent.destroy();
  }
}

/** Sends requests at a steady rate until `stop` is called. */
function startLoad(/** @type {Client} */ client) {
  let isRunning = true;
  const start = performance.now();
  const run = async () => {
    let sent = 0;
    while (isRunning) {
      for (; sent < ((performance.now() - start) * PER_SECOND) / 1000; sent++) {
        void client.send(sent % 2 === 0 ? "/bucket" : "/log");
      }
      await sleep(TICK_MS);
    }
    await Promise.all(client.inFlight);
  };
  const ended = run();
  return {
    /** Returns the duration of the load in seconds. */
    async stop() {
      isRunning = false;
      await ended;
      return (performance.now() - start) / 1000;
    },
  };
}

/** Replaces the rules with an invalid file. Returns what is wrong with the result, if anything. */
async function replaceInvalid(/** @type {any} */ rules) {
  const { version } = rules;
  const data = dataWith(MAX_LIMIT);
  /** @type {any} */ (data.rules[1]).limits.ip = "60 per minute";
  try {
    await rules.replace(data);
    return ["an invalid reload was accepted"];
  } catch (error) {
    const [issue] = error.issues ?? [];
    const isReported = error.code === "invalid-rules" && issue?.path === "rules[1].limits.ip";
    return [
      ...(isReported ? [] : [`an invalid reload was reported as ${error.message}`]),
      ...(rules.version === version ? [] : ["an invalid reload changed the rules"]),
    ];
  }
}

async function reloadUnderLoad(/** @type {string} */ name, /** @type {any} */ store) {
  const rules = loadRules(dataWith(MIN_LIMIT), { store, facts: [], deadlineMs: 20_000 });
  const server = await startServer({ rules });
  const client = new Client(server.port);
  const load = startLoad(client);
  const failures = [];
  let invalid = 0;
  for (let i = 0; i < RELOADS; i++) {
    await sleep(RELOAD_MS);
    if (i === RELOADS >> 1) {
      failures.push(...(await replaceInvalid(rules)));
      invalid++;
    } else {
      const changes = await rules.replace(dataWith(i % 5 === 0 ? MAX_LIMIT : MIN_LIMIT + ((i * 37) % 101)));
      const lost = changes.filter((change) => change.includes("new buckets"));
      failures.push(...lost);
    }
  }
  const times = [];
  for (let i = 0; i < 5; i++) {
    await sleep(RELOAD_MS);
    const data = dataWith(MAX_LIMIT, otherRules(GOAL_RULES - 2, 10 + i));
    const start = performance.now();
    await rules.replace(data);
    times.push(performance.now() - start);
  }
  const seconds = await load.stop();
  client.close();
  server.close();
  await rules.dispose();
  const bucketBound = Math.floor(MAX_LIMIT + (MAX_LIMIT / FILL_SECONDS) * seconds);
  const [bucket, log] = [client.count("/bucket 200"), client.count("/log 200")];
  failures.push(...client.failures());
  if (bucket > bucketBound) failures.push(`a bucket admitted ${bucket}, more than ${bucketBound}`);
  if (log > MAX_LIMIT) failures.push(`a log admitted ${log}, more than ${MAX_LIMIT}`);
  // The limits are used up, so the bounds are tested.
  if (Math.min(bucket, log) < MIN_LIMIT) failures.push(`only ${bucket} and ${log} were admitted`);
  const rate = (client.total / seconds).toFixed(0);
  const sorted = times.toSorted((a, b) => a - b);
  return [
    {
      claim: `reloads under load, ${name}`,
      details: `${RELOADS} reloads, ${invalid} of them invalid, ${client.total} requests (${rate}/s): bucket admitted ${bucket} <= ${bucketBound}, log ${log} <= ${MAX_LIMIT}`,
      failures,
    },
    {
      claim: `reloads of ${GOAL_RULES} rules, ${name}`,
      details: `${sorted[2].toFixed(1)} ms [${sorted[0].toFixed(1)}-${sorted[4].toFixed(1)}] under load, goal ${GOAL_MS} ms ${sorted[2] <= GOAL_MS ? "met" : "MISSED"}`,
      failures: client.failures(),
    },
  ];
}

/** A shadow rule and an enforced one on two servers that share a Redis. Nothing refills within the run. */
async function shadowRule(/** @type {() => any} */ connect) {
  const data = {
    budgets: { api: { ip: "600/h log" } },
    rules: [
      { name: "trial", match: "/trial", limits: { ip: "100/h log" }, budgets: ["api"], mode: "shadow" },
      { name: "main", match: "/main", limits: { ip: "250/h log" }, budgets: ["api"] },
    ],
    fallback: { limits: { ip: "1/h" } },
  };
  const seen = { wouldDeny: 0, counted: 0, deniedBy: new Map() };
  const onDecision = (/** @type {any} */ { decision, rule, mode }) => {
    if (mode === "shadow") {
      seen.counted++;
      if (!decision.allowed) seen.wouldDeny++;
    } else if (!decision.allowed) {
      const name = `${rule} ${decision.policy}`;
      seen.deniedBy.set(name, (seen.deniedBy.get(name) ?? 0) + 1);
    }
  };
  // Cached denials are not counted in the shadow group, because they don't reach the store.
  const options = { facts: [], deadlineMs: 20_000, localDenialMs: 0 };
  const sets = [connect(), connect()].map((store) => loadRules(data, { store, ...options }));
  const servers = await Promise.all(sets.map((rules) => startServer({ rules, onDecision })));
  const clients = servers.map(({ port }) => new Client(port));
  const phase = (/** @type {string} */ path) =>
    Promise.all(
      clients.map(async (client) => {
        for (let i = 0; i < SHADOW_REQUESTS / 2; i += 25) {
          await Promise.all(Array.from({ length: 25 }, () => client.send(path)));
        }
      }),
    );
  // 250 of "main" by its own limit, then 350 of "trial" by the rest of the budget.
  await phase("/main");
  await phase("/trial");
  const count = (/** @type {string} */ name) => clients.reduce((sum, client) => sum + client.count(name), 0);
  for (const client of clients) client.close();
  for (const server of servers) server.close();
  await Promise.all(sets.map((rules) => rules.dispose()));
  const found = {
    "main admitted": [count("/main 200"), 250],
    "trial admitted": [count("/trial 200"), 350],
    "denied by main.ip": [seen.deniedBy.get("main main.ip") ?? 0, SHADOW_REQUESTS - 250],
    "denied by api": [seen.deniedBy.get("trial api") ?? 0, SHADOW_REQUESTS - 350],
    "denied by trial.ip": [seen.deniedBy.get("trial trial.ip") ?? 0, 0],
    "counted in shadow mode": [seen.counted, SHADOW_REQUESTS],
    "would be denied": [seen.wouldDeny, SHADOW_REQUESTS - 100],
  };
  return {
    claim: "shadow rule beside an enforced one",
    details: Object.entries(found)
      .map(([name, [value]]) => `${name} ${value}`)
      .join(", "),
    failures: [
      ...clients.flatMap((client) => client.failures()),
      ...Object.entries(found).flatMap(([name, [value, expected]]) =>
        value === expected ? [] : [`${name}: ${value}, expected ${expected}`],
      ),
    ],
  };
}

/** Yields one row per claim. */
export async function* rulesReload() {
  yield* await reloadUnderLoad("memory", memoryStore());
  const server = await startRedis();
  const clients = /** @type {Redis[]} */ ([]);
  const connect = () => {
    const client = new Redis(server.port, { autoResendUnfulfilledCommands: false });
    clients.push(client);
    return redisStore(client);
  };
  try {
    yield* await reloadUnderLoad("Redis", connect());
    yield await shadowRule(connect);
  } finally {
    for (const client of clients) client.disconnect();
    await server.stop();
  }
}
