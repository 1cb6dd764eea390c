/** Measures rules in `sluice/node`, relative to a single limit: requests without a network, reloads, commands and bytes. */
import { Redis } from "ioredis";
import { startRedis } from "../test/servers/redis-server.js";
import { BATCH, cpuPerCall } from "./cpu-per-call.js";
import { bundleSize } from "./import-size.js";
import { measureInChild } from "./measure-in-child.js";
import { goal, goalTable, ratios, spread, table } from "./report.js";
import { repeats } from "./settings.js";
import { StubRequest, StubResponse } from "./stub-request.js";

export const title = "Rules";

/** A limit that is never reached. */
const AMPLE = "1000000/s";
const RULES = 50;
const MANY_RULES = 500;
const CLIENTS = 1000;
const RELOADS = 20;
const REDIS_REQUESTS = 500;

/** Rules like those of an API: each has a limit of its own and two shared ones, on three keys. */
function rulesData(count, limit = AMPLE) {
  return {
    budgets: { api: { tenant: limit } },
    defaults: { budgets: ["api"] },
    rules: Array.from({ length: count }, (_, i) => ({
      name: `r${i}`,
      match: [`GET /v1/r${i}/:id`, `POST /v1/r${i}`],
      limits: { ip: limit, account: limit },
    })),
    fallback: { limits: { ip: limit } },
  };
}

const facts = {
  tenant: (request) => request.headers["x-tenant"],
  account: (request) => request.headers["x-account"],
};

/** What is measured: the options of `rateLimit`, and the spelling of path `i`. */
const variants = {
  "one limit": { rules: 0, path: (i) => `/v1/r${i % RULES}/${i % CLIENTS}` },
  "50 rules": { rules: RULES, path: (i) => `/v1/r${i % RULES}/${i % CLIENTS}` },
  "500 rules": { rules: MANY_RULES, path: (i) => `/v1/r${i % RULES}/${i % CLIENTS}` },
  "500 rules, all in use": { rules: MANY_RULES, path: (i) => `/v1/r${i % MANY_RULES}/${i % CLIENTS}` },
  "50 rules, unusual spelling": { rules: RULES, path: (i) => `/V1/r${i % RULES}/%37${i % CLIENTS}/` },
};

async function optionsOf(rules, store) {
  if (rules === 0) return { policy: AMPLE };
  const { loadRules } = await import("../dist/rules.js");
  return { rules: loadRules(rulesData(rules), { facts: Object.keys(facts), ...(store && { store }) }), facts };
}

/** CPU microseconds per request of one variant, or milliseconds per reload. */
export async function measure({ name }) {
  if (name === "reload") return measureReload();
  const { rules, path } = variants[name];
  const { rateLimit } = await import("../dist/node.js");
  const handler = rateLimit(await optionsOf(rules))((_request, response) => void response.end());
  const paths = Array.from({ length: MANY_RULES * 2 }, (_, i) => path(i));
  const batch = () => {
    for (let i = 0; i < BATCH; i++) {
      const response = new StubResponse();
      handler(new StubRequest(i, paths[i]), response);
      globalThis.result = response;
    }
  };
  cpuPerCall(batch);
  const us = cpuPerCall(batch);
  const { statusCode, writableEnded, headers } = globalThis.result;
  const items = headers["RateLimit-Policy"]?.split(", ").length;
  if (statusCode !== 200 || !writableEnded || items < (rules === 0 ? 1 : 3)) throw new Error(`${name}: wrong response`);
  return us;
}

/** Milliseconds per `replace` of 500 rules in a new process, each with other limits. The first ones are not optimised. */
async function measureReload() {
  const { rules } = await optionsOf(MANY_RULES);
  const times = [];
  for (let i = 1; i <= RELOADS; i++) {
    const data = rulesData(MANY_RULES, `${1000 + i}/s`);
    const start = performance.now();
    await rules.replace(data);
    times.push(performance.now() - start);
  }
  return { first: times[0], median: times.toSorted((a, b) => a - b)[RELOADS >> 1] };
}

/** Client commands per request on Redis. */
async function commandsPerRequest() {
  const server = await startRedis();
  const client = new Redis(server.port, { autoResendUnfulfilledCommands: false });
  try {
    const { rateLimit } = await import("../dist/node.js");
    const { redisStore } = await import("../dist/redis.js");
    const options = await optionsOf(RULES, redisStore(client));
    const { sendCommand } = client;
    let commands = 0;
    client.sendCommand = function (...args) {
      commands++;
      return sendCommand.apply(this, args);
    };
    const send = (i) =>
      new Promise((resolve) => {
        const handler = rateLimit(options)((_request, response) => resolve(response));
        handler(new StubRequest(i, variants["50 rules"].path(i)), new StubResponse());
      });
    // The first call loads the script.
    await send(0);
    commands = 0;
    for (let i = 0; i < REDIS_REQUESTS; i++) await send(i);
    return commands / REDIS_REQUESTS;
  } finally {
    client.disconnect();
    await server.stop();
  }
}

/** Bytes of bundles with and without rules. */
async function sizes() {
  const rules = { from: "../dist/rules.js", names: "loadRules" };
  const sluice = { from: "../dist/index.js", names: "createLimiter, memoryStore" };
  const express = { from: "../dist/express.js", names: "rateLimit" };
  const bundles = { sluice: [sluice], "sluice and rules": [sluice, rules], express: [express] };
  bundles["express and rules"] = [express, rules];
  const found = Object.entries(bundles).map(async ([name, [first, ...also]]) => [
    name,
    await bundleSize({ ...first, also }),
  ]);
  return Object.fromEntries(await Promise.all(found));
}

export async function run(progress) {
  const times = Object.fromEntries(Object.keys(variants).map((name) => [name, []]));
  const reloads = [];
  for (let repeat = 1; repeat <= repeats; repeat++) {
    progress(`repeat ${repeat} of ${repeats}`);
    for (const name of Object.keys(variants)) times[name].push(await measureInChild("rules", { name }));
    reloads.push(await measureInChild("rules", { name: "reload" }));
  }
  progress("commands and bundles");
  const commands = await commandsPerRequest();
  const bytes = await sizes();
  const [one, some, many, all, unusual] = Object.values(times);
  const rows = Object.entries(times).map(([name, values]) => [name, spread(values), spread(ratios(values, one))]);
  const added = (name, base) => bytes[name].gzip - bytes[base].gzip;
  return [
    table(["sluice/node, memory, allowed", "CPU us per request", "to one limit"], rows),
    table(
      ["bundle", "minified B", "gzip -9 B"],
      Object.entries(bytes).map(([name, { min, gzip }]) => [name, min, gzip]),
    ),
    goalTable([
      goal("50 rules, 3 limits on 3 keys / one limit", ratios(some, one), "<=", 5, "x"),
      goal("500 rules / 50 rules, the same 50 in use", ratios(many, some), "<=", 1.3, "x"),
      goal("500 rules, all in use / 50 rules", ratios(all, some), "<=", 1.3, "x"),
      goal("unusual spelling / plain, 50 rules", ratios(unusual, some), "<=", 6, "x"),
      goal(
        "replace of 500 rules, first in a process",
        reloads.map(({ first }) => first),
        "<=",
        50,
        " ms",
      ),
      goal(
        `replace of 500 rules, median of ${RELOADS}`,
        reloads.map(({ median }) => median),
        "<=",
        50,
        " ms",
      ),
      goal("Redis: client commands per request, 50 rules", [commands], "<=", 1),
      goal("sluice/rules on top of sluice, gzip", [added("sluice and rules", "sluice")], "<=", 7000, " B"),
      goal("sluice/rules on top of sluice/express, gzip", [added("express and rules", "express")], "<=", 7000, " B"),
      goal("sluice/express without rules, gzip", [bytes.express.gzip], "<=", 11_000, " B"),
    ]),
  ];
}
