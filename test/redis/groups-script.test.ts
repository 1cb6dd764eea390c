/**
 * Compares groups of takes in the script with the pure functions and with the script's general path, and runs the walks on
 * mutants of the fast path, each with a known bug. SLUICE_SCALE multiplies the number of charges, and SLUICE_SEED sets the seed.
 */

import { beforeAll, describe, expect, it } from "vitest";
import { leastCount, scaled } from "../../scripts/scale.js";
import { withRedis } from "../servers/needs.ts";
import { compareWithGeneral, generalScript, type TakesWalkOptions, walkTakes } from "./groups-walk.ts";
import { type Run, walkScript } from "./holds-walk.ts";
import { redis } from "./own-redis.ts";
import { variant } from "./script-variants.js";

const STEPS = scaled(100_000);
const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));

beforeAll(async () => {
  await redis.script("LOAD", walkScript.text);
  await redis.script("LOAD", generalScript.text);
});

const runOf =
  (sha: string): Run =>
  (keys, args) =>
    redis.evalsha(sha, keys.length, ...keys, ...args);
const remove = (keys: string[]) => redis.del(keys);
const put = async (key: string, value: string | string[] | undefined) => {
  await redis.del(key);
  if (typeof value === "string") await redis.set(key, value);
  else if (value) await redis.rpush(key, ...value);
};
const compare = (options: TakesWalkOptions) =>
  compareWithGeneral({ ...options, runGeneral: runOf(generalScript.sha), put });

describe(`groups of takes (seed ${seed})`, withRedis, () => {
  it(`make the same decisions as decideGroup over ${STEPS} random steps, with equal values and TTLs`, async () => {
    const counts = await walkTakes({ steps: STEPS, seed, run: runOf(walkScript.sha), remove, prefix: "g:" });
    if (process.env.SLUICE_SCALE) console.log(JSON.stringify(counts));
    const kinds = [
      "admitted",
      "denied",
      "never",
      "back",
      "groups",
      "deniedGroups",
      "heldTakes",
      "strikes",
      "expired",
    ] as const;
    for (const what of kinds) expect(counts[what] ?? 0, what).toBeGreaterThan(leastCount(STEPS / 2000));
  });

  it(`reply and write the same bytes as the general path over ${STEPS} random steps, also on foreign values`, async () => {
    expect(generalScript.text).not.toBe(walkScript.text);
    const counts = await compare({ steps: STEPS, seed, run: runOf(walkScript.sha), prefix: "c:" });
    if (process.env.SLUICE_SCALE) console.log(JSON.stringify(counts));
    for (const [what, count] of Object.entries(counts)) expect(count, what).toBeGreaterThan(leastCount(STEPS / 2000));
  });

  it("fail as one if the first write is rejected, and leave the other groups alone", async () => {
    const charges = ["token-bucket take 1 10 1000 100 1 0", "fixed-window take 1 10 1000 1 0 0"];
    const keys = ["oom:a", "oom:b", "oom:c", "oom:d"];
    const { sha, text } = variant((await import("../../src/stores/redis/script.ts")).script);
    await redis.script("LOAD", text);
    await redis.config("SET", "maxmemory", "1");
    try {
      const oom = expect.stringMatching(/^OOM/);
      expect(await redis.evalsha(sha, 4, ...keys, "2 2", ...charges)).toEqual([
        ...[2, oom, "SKIPPED", oom, "SKIPPED"],
        expect.any(Number),
      ]);
    } finally {
      await redis.config("SET", "maxmemory", "0");
    }
    expect(await redis.exists(keys)).toBe(0);
  });
});

const MUTANTS: readonly (readonly [name: string, from: string, to: string])[] = [
  [
    "a denied group is charged",
    "return end\ncomputeTakes(shape, isAdmitted)\n",
    "return end\nisAdmitted = true\ncomputeTakes(shape, isAdmitted)\n",
  ],
  [
    "only the last charge denies a group",
    "if used > maxUsed then isAdmitted = false end",
    "isAdmitted = used <= maxUsed",
  ],
  ["a cost that exactly fits is denied", "if used > maxUsed then isAdmitted", "if used >= maxUsed then isAdmitted"],
  [
    "a bucket dated in the future is not clamped",
    "if untilFull > charge.windowMs or used > charge.capacityUnits then return end",
    "",
  ],
  [
    "a window dated in the future is not clamped",
    "if used > maxUsed and algorithm.isInFuture(charge, used, a, b, c) then return end",
    "",
  ],
  [
    "the fraction of an instant is ignored",
    "partIn(unitsPerMs, part, writtenUnitsPerMs)\nif untilFull >",
    "0\nif untilFull >",
  ],
  ["the fraction is not stored", "if part > 0 then", "if false then"],
  [
    "the time to live is rounded down",
    "format(INSTANT, full, part, unitsPerMs), ttl + 1",
    "format(INSTANT, full, part, unitsPerMs), ttl",
  ],
  ["the minimum time to live is ignored", "ttl > charge.ttlMs and ttl or charge.ttlMs", "ttl"],
  [
    "the numbers of a window are those before the take",
    "ttl = appendDurations(charge, used, over, a, b, c)",
    "ttl = appendDurations(charge, used, over, as[i], bs[i], cs[i])",
  ],
  [
    "a bucket with holds is taken for an unused one",
    "if not full then return end\nlocal untilFull = full - now\nif untilFull >= 0 then",
    "full, part, writtenUnitsPerMs = full or 0, part or 0, writtenUnitsPerMs or 0\nlocal untilFull = full - now\nif untilFull >= 0 then",
  ],
  [
    "a group after one with holds is decided before it",
    "if isAdmitted == nil then return end",
    "if isAdmitted == nil then isAdmitted = false for i = 1, shape.size do useds[i] = 0 as[i] = 0 bs[i] = 0 cs[i] = 0 end end",
  ],
  ["groups are decided twice after one with holds", "if k >= decided then", "if true then"],
  [
    "a value of another type is overwritten",
    "if type(raw) == 'table' then return end",
    "if type(raw) == 'table' then raw = false end",
  ],
  [
    "a denied group has the numbers of an admitted one",
    "if isAdmitted then used = used + charge.amount end",
    "used = used + charge.amount",
  ],
];

describe("the walks over groups of takes", withRedis, () => {
  it.each(MUTANTS)("find a mutant: %s", async (name, from, to) => {
    expect(walkScript.text.split(from), from).toHaveLength(2);
    const { sha, text } = variant(walkScript.text.replace(from, () => to));
    await redis.script("LOAD", text);
    const findings: string[] = [];
    for (const seed of [7, 8]) {
      const options = { steps: 6000, seed, run: runOf(sha), prefix: `${name} ${seed}:` };
      for (const walk of [() => walkTakes({ ...options, remove }), () => compare(options)]) {
        if (findings.length === 0) await walk().catch((error) => findings.push(String(error)));
      }
    }
    expect(findings).toHaveLength(1);
  });
});
