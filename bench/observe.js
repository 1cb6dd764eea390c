/** Measures an observer: what it adds to decisions and requests without one, to denied requests, and to a scrape. */
import { Registry } from "prom-client";
import { BATCH, cpuPerCall } from "./cpu-per-call.js";
import { bundleSize } from "./import-size.js";
import { measureInChild } from "./measure-in-child.js";
import { goal, goalTable, ratios, spread, table } from "./report.js";
import { repeats } from "./settings.js";
import { StubRequest, StubResponse } from "./stub-request.js";

export const title = "Observer";

/** A limit that is never reached, and one that is. */
const AMPLE = { capacity: 1e9, tokensPerSecond: 1e6, name: "api" };
const NONE_LEFT = { algorithm: "fixed-window", limit: 1, windowMs: 86_400_000, name: "api" };
const KEYS = 1000;
const RULES = 500;
const SCRAPES = 20;

/** What is measured, each with every observer. */
const TASKS = ["consumeSync, allowed", "request, allowed", "request, denied", "fastify, allowed"];
const OBSERVERS = ["none", "observer", "prom-client", "log"];

/** The observer of a variant. */
async function observerOf(kind) {
  if (kind === "none") return undefined;
  const { createObserver, jsonLog } = await import("../dist/observe.js");
  if (kind !== "log") {
    const observer = createObserver();
    if (kind === "prom-client") {
      const { prometheusMetrics } = await import("../dist/prometheus.js");
      prometheusMetrics(observer, { register: new Registry() });
    }
    return observer;
  }
  let bytes = 0;
  const write = (line) => {
    bytes += line.length;
    globalThis.result = bytes;
  };
  return createObserver({ log: jsonLog(write, { maxPerSecond: Number.POSITIVE_INFINITY }) });
}

/** CPU nanoseconds per decision, or microseconds per request. */
export async function measure({ task, kind }) {
  if (task === "scrape") return measureScrape();
  const observer = await observerOf(kind);
  const options = observer ? { observer } : {};
  const batch = await batchOf(task, options);
  await timed(batch);
  return timed(batch);
}

/** Batches of a server are asynchronous. */
function timed(batch) {
  return batch.isAsync ? cpuPerCallAsync(batch) : cpuPerCall(batch);
}

async function cpuPerCallAsync(batch) {
  const before = process.cpuUsage();
  const batches = 20;
  for (let i = 0; i < batches; i++) await batch();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / (batches * BATCH);
}

async function batchOf(task, options) {
  if (task === "consumeSync, allowed") {
    const { createLimiter } = await import("../dist/index.js");
    const limiter = createLimiter({ policy: AMPLE, ...options });
    const keys = Array.from({ length: KEYS }, (_, i) => `user:${i}`);
    return () => {
      for (let i = 0; i < BATCH; i++) globalThis.result = limiter.consumeSync(keys[i % KEYS]);
    };
  }
  if (task === "fastify, allowed") {
    const { default: fastify } = await import("fastify");
    const { rateLimit } = await import("../dist/fastify.js");
    const app = fastify();
    app.addHook("onRequest", rateLimit({ policy: AMPLE, ...options }));
    app.get("/", async () => "ok");
    await app.ready();
    const batch = async () => {
      for (let i = 0; i < BATCH; i++) {
        const { statusCode } = await app.inject("/");
        if (statusCode !== 200) throw new Error(`status ${statusCode}`);
      }
    };
    return Object.assign(batch, { isAsync: true });
  }
  const { rateLimit } = await import("../dist/node.js");
  const isDenied = task === "request, denied";
  const limit = rateLimit({ policy: isDenied ? NONE_LEFT : AMPLE, ...options });
  const handler = limit((_request, response) => void response.end());
  const batch = () => {
    for (let i = 0; i < BATCH; i++) {
      const response = new StubResponse();
      handler(new StubRequest(i, "/v1/reports/7"), response);
      globalThis.response = response;
    }
  };
  batch();
  batch();
  const { statusCode } = globalThis.response;
  if (statusCode !== (isDenied ? 429 : 200)) throw new Error(`${task}: status ${statusCode}`);
  return batch;
}

/** Milliseconds per scrape of 500 rules with two outcomes each, the median. */
async function measureScrape() {
  const { createLimiter } = await import("../dist/index.js");
  const { createObserver } = await import("../dist/observe.js");
  const { prometheusMetrics } = await import("../dist/prometheus.js");
  const observer = createObserver();
  const register = new Registry();
  prometheusMetrics(observer, { register });
  for (let i = 0; i < RULES; i++) {
    const limiter = createLimiter({ policy: { ...NONE_LEFT, name: `rule-${i}` }, observer });
    for (let k = 0; k < 2; k++) limiter.consumeSync("a");
  }
  const times = [];
  for (let i = 0; i < SCRAPES; i++) {
    const start = performance.now();
    await register.metrics();
    times.push(performance.now() - start);
  }
  return times.toSorted((a, b) => a - b)[SCRAPES >> 1];
}

/** Gzip bytes of bundles. */
async function sizes() {
  const sluice = { from: "../dist/index.js", names: "createLimiter, memoryStore" };
  const observe = { from: "../dist/observe.js", names: "createObserver" };
  const prometheus = { from: "../dist/prometheus.js", names: "prometheusMetrics" };
  const [base, withObserver, withPrometheus] = await Promise.all([
    bundleSize({ ...sluice }),
    bundleSize({ ...sluice, also: [observe] }),
    bundleSize({ ...sluice, also: [observe, prometheus] }),
  ]);
  return { observe: withObserver.gzip - base.gzip, prometheus: withPrometheus.gzip - withObserver.gzip };
}

export async function run(progress) {
  const times = Object.fromEntries(
    TASKS.map((task) => [task, Object.fromEntries(OBSERVERS.map((kind) => [kind, []]))]),
  );
  const scrapes = [];
  for (let repeat = 1; repeat <= repeats; repeat++) {
    progress(`repeat ${repeat} of ${repeats}`);
    for (const task of TASKS) {
      for (const kind of OBSERVERS) times[task][kind].push(await measureInChild("observe", { task, kind }));
    }
    scrapes.push(await measureInChild("observe", { task: "scrape" }));
  }
  const bytes = await sizes();
  const rows = TASKS.flatMap((task) =>
    OBSERVERS.map((kind) => {
      const values = times[task][kind];
      const added = values.map((value, i) => (value - times[task].none[i]) * 1000);
      return [task, kind, spread(values), spread(added), spread(ratios(values, times[task].none))];
    }),
  );
  const added = (task, kind) => times[task][kind].map((value, i) => value - times[task].none[i]);
  const nsPerDecision = added("consumeSync, allowed", "observer").map((us) => us * 1000);
  return [
    table(["memory", "observer", "CPU us", "added ns", "to none"], rows),
    goalTable([
      goal("observer, allowed decision, added", nsPerDecision, "<=", 50, " ns"),
      goal(
        "prom-client / none, Fastify",
        ratios(times["fastify, allowed"]["prom-client"], times["fastify, allowed"].none),
        "<=",
        1.01,
        "x",
      ),
      goal("denied request with a log line, added", added("request, denied", "log"), "<=", 15, " us"),
      goal(`scrape of ${RULES} rules`, scrapes, "<=", 20, " ms"),
      goal("sluice/observe on top of sluice, gzip", [bytes.observe], "<=", 3000, " B"),
      goal("sluice/prometheus on top of both, gzip", [bytes.prometheus], "<=", 1000, " B"),
    ]),
  ];
}
