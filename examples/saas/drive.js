/**
 * Checks the rules of this example: 50 endpoints x 3 plans x 10 tenants on Express and Redis. For each it sends more
 * requests than the rules allow, and compares how many were admitted with a calculation of its own.
 * Run it with: node examples/saas/drive.js
 */
import { once } from "node:events";
import { Agent, request } from "node:http";
import { Redis } from "ioredis";
import { redisStore } from "sluice/redis";
import { fakeClock } from "sluice/testing";
import { startRedis } from "../../test/servers/redis-server.js";
import { createApp } from "./app.js";
import { endpointsOf, expectedOf, FACTS } from "./expected.js";
import { onClock } from "./on-clock.js";

const PLANS = ["free", "pro", "enterprise"];
const TENANTS = Array.from({ length: 10 }, (_, i) => `tenant-${i}`);
/** Longer than every window, so that all budgets are full again. */
const BETWEEN_ROWS_MS = 60 * 86_400_000;
/** Requests to an endpoint without a limit, which are all admitted. */
const UNLIMITED_SENT = 100;
/** Requests over the limit. */
const MORE = 3;

const redisServer = await startRedis();
const redis = new Redis(redisServer.port);
// Time stands still while an endpoint is tested, so that the expected numbers are exact.
const clock = fakeClock();
// Redis expires buckets by its own clock, so that they are kept for longer than they need. With a long deadline: on a
// busy machine, requests would be decided without Redis otherwise.
const store = redisStore(onClock(redis, clock), { ttlMs: 600_000 });
const { app, rules } = createApp({ store, deadlineMs: "30s" });
const server = app.listen(0, "127.0.0.1");
await once(server, "listening");
const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
const agent = new Agent({ keepAlive: true, maxSockets: 32 });
const log = console.log;
console.log = () => {};

/**
 * Sends one request and returns its status.
 * @param {{ method: string, path: string, rule: string }} endpoint
 * @param {string} tenant
 * @param {string} plan
 * @param {number} row
 */
function send({ method, path, rule }, tenant, plan, row) {
  const headers = {
    "X-Forwarded-For": `10.${row >> 16}.${(row >> 8) & 255}.${row & 255}`,
    "X-Session": `user-${row} ${tenant} ${plan}`,
    "Content-Type": "application/json",
  };
  const body = JSON.stringify({ email: `${row}@example.com`, max_tokens: FACTS.tokens, tasks: [1], rule });
  return new Promise((resolve, reject) => {
    const sent = request({ port, host: "127.0.0.1", agent, method, path, headers }, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode));
    });
    sent.on("error", reject);
    sent.end(method === "POST" || method === "PATCH" ? body : undefined);
  });
}

/** A sign-up over the limit is challenged. */
const denialOf = (/** @type {string} */ rule) => (rule === "signup" ? 403 : 429);

const endpoints = endpointsOf(rules.data);
let [row, wrong, requests] = [0, 0, 0];
log("endpoint                             plan        tenant      expected  admitted");
for (const endpoint of endpoints) {
  for (const plan of PLANS) {
    for (const tenant of TENANTS) {
      row++;
      clock.advance(BETWEEN_ROWS_MS);
      const expected = expectedOf(rules.data, endpoint.rule, plan);
      const shown = expected === Number.POSITIVE_INFINITY ? UNLIMITED_SENT : expected;
      const count = expected === Number.POSITIVE_INFINITY ? UNLIMITED_SENT : expected + MORE;
      const statuses = await Promise.all(Array.from({ length: count }, () => send(endpoint, tenant, plan, row)));
      requests += count;
      const admitted = statuses.filter((status) => status < 300 || status === 401).length;
      const isRight =
        admitted === shown &&
        statuses.every((status) => status < 300 || status === 401 || status === denialOf(endpoint.rule));
      if (!isRight) wrong++;
      const name = `${endpoint.method} ${endpoint.path}`;
      log(
        `${name.padEnd(36)} ${plan.padEnd(11)} ${tenant.padEnd(11)} ${String(shown).padStart(8)}  ${String(admitted).padStart(8)}${isRight ? "" : `  WRONG ${statuses}`}`,
      );
    }
  }
}

// One request at a time: what Redis receives for each.
clock.advance(BETWEEN_ROWS_MS);
const monitor = await redis.monitor();
/** @type {string[]} */
let commands = [];
monitor.on("monitor", (_time, [command], source) => {
  if (source !== "lua" && command !== "ping") commands.push(command);
});
const settled = async () => {
  await redis.ping();
  await new Promise((resolve) => setTimeout(resolve, 2));
};
let [alone, withOne, later] = [0, 0, 0];
for (const endpoint of endpoints.filter(({ rule }) => rule !== "health")) {
  for (const plan of PLANS) {
    commands = [];
    await send(endpoint, "acme", plan, ++row);
    await settled();
    alone++;
    // Amounts that are held are settled after the response, which is a second command.
    if (endpoint.rule === "ai" && commands.length === 2) later++;
    if (commands.length === (endpoint.rule === "ai" ? 2 : 1)) withOne++;
  }
}
monitor.disconnect();
log(`
${endpoints.length} endpoints x ${PLANS.length} plans x ${TENANTS.length} tenants = ${endpoints.length * PLANS.length * TENANTS.length} rows, ${requests} requests
rows with expected = admitted   ${endpoints.length * PLANS.length * TENANTS.length - wrong}
requests sent alone             ${alone}
with one command for the limits ${withOne} (of these, ${later} settle held tokens with a second command after the response)`);
if (wrong > 0 || withOne !== alone || endpoints.length !== 50) process.exitCode = 1;
agent.destroy();
server.close();
redis.disconnect();
await redisServer.stop();
