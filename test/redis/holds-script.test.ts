/**
 * Compares holds, concurrency limits and penalties in the script with the pure functions, on Redis and through Upstash's
 * REST API. SLUICE_SCALE multiplies the number of charges per algorithm, and SLUICE_SEED sets the seed.
 */

import { Redis as UpstashRedis } from "@upstash/redis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { leastCount, scaled } from "../../scripts/scale.js";
import type { AlgorithmName } from "../../src/core/policy.ts";
import { startUpstashBridge } from "../servers/upstash-bridge.js";
import { type Counts, HELD_ALGORITHMS, manyHoldsScript, type Run, walk, walkScript } from "./holds-walk.ts";
import { redis, server } from "./own-redis.ts";

const STEPS = scaled(10_000);
const UPSTASH_STEPS = Math.max(500, STEPS / 20);
const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));

let bridge: Awaited<ReturnType<typeof startUpstashBridge>>;
let upstash: UpstashRedis;
beforeAll(async () => {
  await redis.script("LOAD", walkScript.text);
  await redis.script("LOAD", manyHoldsScript.text);
  bridge = await startUpstashBridge(server.port);
  upstash = new UpstashRedis({ url: bridge.url, token: bridge.token, retry: { retries: 0 } });
});
afterAll(() => bridge?.stop());

const onRedis: Run = (keys, args) => redis.evalsha(walkScript.sha, keys.length, ...keys, ...args);
const onUpstash: Run = (keys, args) => upstash.evalsha(walkScript.sha, keys, args);

describe(`holds against the pure functions (seed ${seed})`, () => {
  it.each(HELD_ALGORITHMS)(`%s: ${STEPS} random steps have equal decisions, values and TTLs`, async (algorithm) => {
    const counts = await walk({ algorithm, steps: STEPS, seed, run: onRedis, prefix: "r:" });
    if (process.env.SLUICE_SCALE) console.log(algorithm, JSON.stringify(counts));
    for (const what of kindsOf(algorithm)) expect(counts[what] ?? 0, what).toBeGreaterThan(leastCount(STEPS / 1000));
  });

  it.each(HELD_ALGORITHMS)(`%s: so have ${STEPS} steps if a take does not parse the holds`, async (algorithm) => {
    const run: Run = (keys, args) => redis.evalsha(manyHoldsScript.sha, keys.length, ...keys, ...args);
    const counts = await walk({ algorithm, steps: STEPS, seed: seed + 2, run, prefix: "m:", isMany: true });
    for (const what of kindsOf(algorithm)) expect(counts[what] ?? 0, what).toBeGreaterThan(leastCount(STEPS / 1000));
  });

  it.each(HELD_ALGORITHMS)(`%s: so have ${UPSTASH_STEPS} steps on Upstash`, async (algorithm) => {
    const counts = await walk({ algorithm, steps: UPSTASH_STEPS, seed: seed + 1, run: onUpstash, prefix: "u:" });
    for (const what of ["admitted", "denied", "holds"] as const) expect(counts[what] ?? 0, what).toBeGreaterThan(10);
  });
});

/** The kinds of steps that a walk must contain. */
function kindsOf(algorithm: AlgorithmName): (keyof Counts)[] {
  const all: (keyof Counts)[] = ["admitted", "denied", "never", "holds", "settled", "missing", "back", "ttls"];
  all.push("heldValues", "heldTakes", "earliest");
  if (algorithm === "concurrency") return all;
  return algorithm === "penalty" ? [...all, "blocked", "strikes"] : [...all, "grants", "debts", "forgiven"];
}
