/**
 * The server of the soak: Express with rules, abuse prevention, idempotency and an observer on one Redis. Its handlers are
 * the oracle: they count what was admitted and what runs at once, without asking the library.
 */
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import express from "express";
import { Redis } from "ioredis";
import { abuse, ipList } from "../dist/abuse.js";
import { getIdempotency, getRateLimit, idempotent, rateLimit } from "../dist/express.js";
import { createObserver } from "../dist/observe.js";
import { redisIdempotencyStore, redisStore } from "../dist/redis.js";
import { defineRules } from "../dist/rules.js";

const { redisPort, limits, trap } = JSON.parse(process.argv[2] ?? "{}");
const { slots, leaseMs, capacity, perSecond, tokens, tokensPerSecond, estimate } = limits;

const redis = new Redis(redisPort, { maxRetriesPerRequest: 0, retryStrategy: () => 50 });
redis.on("error", () => {});
let unhandled = 0;

const observer = createObserver({ topKeys: 10 });
const store = redisStore(redis);
const rules = defineRules(
  {
    rules: [
      { name: "work", match: "/work", limits: { client: `${perSecond}/s burst ${capacity}` } },
      { name: "slow", match: "/slow", limits: { global: `${slots} concurrent lease ${leaseMs / 1000}s` } },
      {
        name: "tokens",
        match: "/tokens",
        hold: `${leaseMs / 1000}s`,
        limits: { client: `${tokensPerSecond}/s burst ${tokens} of tokens` },
      },
      { name: "pay", match: "/pay", limits: { client: "100000/s" } },
    ],
    fallback: { limits: { global: "100000/s" } },
    defaults: { onStoreError: "closed" },
  },
  { store, deadlineMs: "1s", onEvent: () => {}, observer },
);

/** What the handlers have seen: admissions by user, handlers at once, actual tokens, and payments by key. */
const seen = { rates: {}, running: 0, most: 0, tokens: {}, payments: {}, requests: 0, errors: {} };
const add = (counts, name, amount = 1) => (counts[name] = (counts[name] ?? 0) + amount);
const userOf = (request) => request.get("x-user");

/**
 * Adds an admission of a user, who sends one request after the other. Each was decided between its arrival and its
 * handler, so every interval of arrival i and handler j admits j - i + 1 <= burst + perSecond x seconds. Keeps the largest burst.
 */
function admit(user, arrivedS) {
  const rate = (seen.rates[user] ??= { admitted: 0, start: Number.NEGATIVE_INFINITY, burst: 0 });
  rate.start = Math.max(rate.start, perSecond * arrivedS - rate.admitted++);
  rate.burst = Math.max(rate.burst, rate.admitted - perSecond * nowS() + rate.start);
}
const nowS = () => performance.now() / 1000;

const app = express();
app.use((request, _response, next) => {
  seen.requests++;
  request.arrivedS = nowS();
  next();
});
app.use(express.json());
app.use(
  "/pay",
  idempotent({
    store: redisIdempotencyStore(redis),
    scope: userOf,
    lease: leaseMs,
    ttl: "1h",
    deadlineMs: "1s",
    replayLimit: "1000000/s",
    onEvent: () => {},
    observer,
  }),
);
app.use(
  rateLimit({
    rules,
    identity: { trustedProxies: ["127.0.0.0/8", "::1"] },
    abuse: abuse({ deny: [ipList(["192.0.2.0/24"])], traps: [trap] }),
    facts: { user: userOf, tokens: () => estimate },
    observer,
    onEvent: () => {},
  }),
);
app.get("/work", (request, response) => {
  const user = userOf(request);
  if (user !== undefined) admit(user, request.arrivedS);
  response.end("ok");
});
app.get("/slow", async (request, response) => {
  seen.most = Math.max(seen.most, ++seen.running);
  await sleep(Number(request.query.ms));
  seen.running--;
  response.end("ok");
});
app.get("/tokens", async (request, response) => {
  await sleep(Number(request.query.ms));
  const used = Number(request.query.used);
  add(seen.tokens, userOf(request), used);
  getRateLimit(request)?.settle?.({ tokens: used });
  response.end("ok");
});
app.post("/pay", async (request, response) => {
  const { key } = getIdempotency(request) ?? {};
  add(seen.payments, String(key));
  await sleep(20);
  response.status(201).json({ paid: key });
});
app.use((error, _request, response, _next) => {
  add(seen.errors, `${error.code ?? error.name}`);
  if (!response.headersSent) response.status(500).end("error");
});

const server = app.listen(0, "127.0.0.1");
await once(server, "listening");
const failed = (error) => {
  unhandled++;
  console.error(error);
};
process.on("unhandledRejection", failed).on("uncaughtException", failed);
process.on("message", async (message) => {
  if (message === "report") {
    globalThis.gc?.();
    await sleep(50);
    globalThis.gc?.();
    const { heapUsed, external, rss } = process.memoryUsage();
    process.send?.({ ...seen, unhandled, memory: { used: heapUsed + external, rss } });
  } else process.exit();
});
process.send?.({ port: server.address().port });
