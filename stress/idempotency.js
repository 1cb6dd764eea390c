/**
 * Retries of payments against real processes: duplicates at once on four processes, processes that are killed at four
 * points, and an event loop that is blocked for longer than a lease. SLUICE_SCALE multiplies the number of rounds.
 */
import { fork } from "node:child_process";
import { Agent, request } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { redisRateLimiter } from "../dist/redis.js";
import { startRedis } from "../test/servers/redis-server.js";
import { stepsOf } from "./steps.js";

const ROUNDS = stepsOf(200);
const PROCESSES = 4;
const DUPLICATES = 50;
const KILLS_PER_POINT = Math.max(2, Math.ceil(ROUNDS / 20));
const KILLS_AT_ONCE = 2;
const STALLS = Math.max(2, Math.ceil(ROUNDS / 20));
const LEASE_MS = 1000;
/** Retries are sent this often. */
const RETRY_MS = 50;
/** Tokens of each key, which do not come back during the test. */
const CAPACITY = 1000;
const POLICY = { capacity: CAPACITY, tokensPerSecond: "1/d", name: "payments" };

/** What a killed process leaves: the effects and the charges of the payment after its retry. */
const KILLS = {
  "before the handler": { effects: 1, charges: 1 },
  "in the handler": { effects: 1, charges: 2 },
  "after the effect": { effects: 2, charges: 2 },
  "before complete": { effects: 2, charges: 2 },
};

const agent = new Agent({ keepAlive: true, maxSockets: 200 });

/** Sends a payment. The status is 0 if the process died. */
function pay(/** @type {number} */ port, /** @type {string} */ key, headers = {}) {
  return new Promise((resolve) => {
    const options = { port, host: "127.0.0.1", method: "POST", agent, headers: { "Idempotency-Key": key, ...headers } };
    const sent = request(options, async (response) => {
      let text = "";
      try {
        for await (const chunk of response) text += chunk;
      } catch {
        resolve({ status: 0, text, isReplay: false });
      }
      const isReplay = response.headers["idempotent-replayed"] === "true";
      resolve({ status: response.statusCode ?? 0, text, isReplay });
    });
    sent.on("error", () => resolve({ status: 0, text: "", isReplay: false })).end();
  });
}

/** Starts a payment server. Its events are collected. */
async function startServer(/** @type {number} */ redisPort, settings = {}) {
  const all = { redisPort, lease: LEASE_MS, wait: 0, handlerMs: 20, policy: POLICY, ...settings };
  const child = fork(fileURLToPath(new URL("idempotency-child.js", import.meta.url)), [JSON.stringify(all)]);
  /** @type {string[]} */
  const events = [];
  const port = await new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`a server exited with ${code}`)));
    child.on("message", (/** @type {{ port?: number, event?: string, key?: string }} */ { port, event, key }) => {
      if (port) resolve(port);
      else events.push(`${event} ${key}`);
    });
  });
  return { child, port, events, stop: () => stop(child) };
}

/** Kills a process and waits for its end. */
function stop(/** @type {import("node:child_process").ChildProcess} */ child) {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve(undefined);
    child.once("exit", resolve);
    child.kill("SIGKILL");
  });
}

/** Yields one row per claim. */
export async function* idempotency() {
  const server = await startRedis();
  const redis = new Redis(server.port);
  const limiter = redisRateLimiter(redis, POLICY, { onStoreError: "throw" });
  const context = {
    port: server.port,
    effects: async (/** @type {string} */ key) => Number(await redis.get(`runs:${key}`)),
    charges: async (/** @type {string} */ key) => CAPACITY - (await limiter.peek(key)).remaining,
  };
  try {
    for (const isInMemory of [false, true]) for (const wait of [0, "5s"]) yield duplicates(context, isInMemory, wait);
    yield* kills(context);
    yield stalls(context);
  } finally {
    agent.destroy();
    redis.disconnect();
    await server.stop();
  }
}

/** Many duplicates at once, over all processes: the handler runs once, one token is charged, all responses are equal. */
async function duplicates({ port, effects, charges }, isInMemory, wait) {
  const processes = isInMemory ? 1 : PROCESSES;
  const servers = await Promise.all(
    Array.from({ length: processes }, () => startServer(port, { isInMemory, wait, lease: 30_000, handlerMs: 100 })),
  );
  const failures = [];
  const seen = { first: 0, replays: 0, conflicts: 0 };
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const key = `dup-${isInMemory}-${wait}-${round}`;
      const all = await Promise.all(
        Array.from({ length: DUPLICATES }, (_, i) => pay(servers[i % processes].port, key)),
      );
      const stored = all.filter(({ status }) => status === 201);
      const conflicts = all.filter(({ status }) => status === 409).length;
      const first = stored.filter(({ isReplay }) => !isReplay).length;
      const bodies = new Set(stored.map(({ text }) => text)).size;
      const expected = wait === 0 ? stored.length + conflicts === DUPLICATES : stored.length === DUPLICATES;
      const [ran, charged] = [await effects(key), await charges(key)];
      if (ran !== 1 || charged !== 1 || first !== 1 || bodies !== 1 || !expected) {
        failures.push(
          `${key}: ${ran} runs, ${charged} tokens, ${first} first, ${bodies} bodies, ${stored.length} x 201, ${conflicts} x 409`,
        );
      }
      seen.first += first;
      seen.replays += stored.length - first;
      seen.conflicts += conflicts;
    }
  } finally {
    await Promise.all(servers.map((one) => one.stop()));
  }
  const where = isInMemory ? "memory" : `Redis, ${processes} processes`;
  return {
    claim: `${DUPLICATES} duplicates, ${where}, wait ${wait}`,
    details: `${ROUNDS} rounds: ${seen.first} runs, ${seen.first} tokens, ${seen.replays} replays, ${seen.conflicts} x 409`,
    failures,
  };
}

/** Processes that are killed at a point: the retry gets 409 until the lease ends, and then runs. */
async function* kills(context) {
  for (const [point, expected] of Object.entries(KILLS)) {
    const failures = [];
    let mostMs = 0;
    const results = [];
    while (results.length < KILLS_PER_POINT) {
      const keys = Array.from({ length: KILLS_AT_ONCE }, (_, i) =>
        `${point} ${results.length + i}`.replaceAll(" ", "-"),
      );
      results.push(...(await Promise.all(keys.map((key) => killOnce(context, point, key)))));
    }
    for (const { key, effects, charges, first, last, again, waitedMs, conflicts } of results) {
      const isExpected = effects === expected.effects && charges === expected.charges;
      const isRun = first === 0 && last.status === 201 && !last.isReplay && again.isReplay && again.text === last.text;
      // A retry that was sent when the lease had ended runs.
      if (!isExpected || !isRun || waitedMs > LEASE_MS + 20 * RETRY_MS || conflicts === 0) {
        failures.push(
          `${key}: ${effects} effects, ${charges} charges, ${first}, ${last.status}, after ${waitedMs} ms, ${conflicts} x 409`,
        );
      }
      mostMs = Math.max(mostMs, waitedMs);
    }
    yield {
      claim: `kill -9 ${point}`,
      details: `${results.length} kills: ${expected.effects} effect(s), ${expected.charges} charge(s) each; free after at most ${Math.round(mostMs)} ms (lease ${LEASE_MS} ms)`,
      failures,
    };
  }
}

async function killOnce({ port, effects, charges }, point, key) {
  const [victim, survivor] = [await startServer(port), await startServer(port)];
  try {
    const first = pay(victim.port, key, { "x-fault": point });
    await new Promise((resolve) => victim.child.once("exit", resolve));
    const from = performance.now();
    let conflicts = 0;
    let last = await pay(survivor.port, key);
    while (last.status === 409) {
      conflicts++;
      await sleep(RETRY_MS);
      last = await pay(survivor.port, key);
    }
    const waitedMs = performance.now() - from;
    const again = await pay(survivor.port, key);
    const { status } = await first;
    return {
      key,
      effects: await effects(key),
      charges: await charges(key),
      first: status,
      last,
      again,
      waitedMs,
      conflicts,
    };
  } finally {
    await Promise.all([victim.stop(), survivor.stop()]);
  }
}

/** A process whose event loop is blocked for longer than its lease: another takes over, and only its response is stored. */
async function stalls({ port, effects, charges }) {
  const failures = [];
  let lost = 0;
  for (let round = 0; round < STALLS; round++) {
    const key = `stall-${round}`;
    const [stalled, other] = [await startServer(port), await startServer(port)];
    try {
      const first = pay(stalled.port, key, { "x-fault": "stall" });
      await sleep(LEASE_MS / 2);
      const before = await pay(other.port, key);
      await sleep(LEASE_MS);
      const second = await pay(other.port, key);
      const own = await first;
      const replays = [await pay(stalled.port, key), await pay(other.port, key)];
      const events = stalled.events.join();
      if (events === `lease-lost ${key}`) lost++;
      const isStoredOnce = replays.every(({ isReplay, text }) => isReplay && text === second.text);
      const isExpected = before.status === 409 && own.status === 201 && second.status === 201 && isStoredOnce;
      const [ran, charged] = [await effects(key), await charges(key)];
      if (!isExpected || events !== `lease-lost ${key}` || ran !== 2 || charged !== 2) {
        failures.push(
          `${key}: ${before.status} ${own.status} ${second.status}, events ${events}, ${ran} effects, ${charged} charges`,
        );
      }
    } finally {
      await Promise.all([stalled.stop(), other.stop()]);
    }
  }
  return {
    claim: "event loop stalled past the lease",
    details: `${STALLS} stalls of ${2 * LEASE_MS} ms: ${lost} x lease-lost, 1 stored response each`,
    failures,
  };
}
