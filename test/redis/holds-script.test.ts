/** Compares holds, concurrency limits and penalties in the script with the pure functions. */
import { beforeAll, describe, expect, it } from "vitest";
import { HELD_ALGORITHMS, walk, walkScript } from "./holds-walk.ts";
import { redis } from "./own-redis.ts";

const STEPS = Number(process.env.SLUICE_STEPS ?? 10_000);
const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));

beforeAll(async () => {
  await redis.script("LOAD", walkScript.text);
});

describe(`holds in the script against the pure functions (seed ${seed})`, () => {
  it.each(HELD_ALGORITHMS)(`%s: ${STEPS} random steps give equal decisions, values and TTLs`, async (algorithm) => {
    const run = (keys: string[], args: string[]) => redis.evalsha(walkScript.sha, keys.length, ...keys, ...args);
    const counts = await walk({ algorithm, steps: STEPS, seed, run });
    for (const [what, count] of Object.entries(counts)) expect(count, what).toBeGreaterThan(STEPS / 1000);
    if (process.env.SLUICE_STEPS) console.log(algorithm, counts);
  });
});
