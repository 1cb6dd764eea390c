/**
 * Random walks over groups of takes. `walkTakes` compares the script with the pure functions; `compareWithGeneral` compares it
 * with the same script without its fast path for groups, byte by byte, also on values and groups that no model decides.
 */

import { concurrency, penalty } from "sluice";
import { expect } from "vitest";
import type { Charge, Group } from "../../src/core/charge.ts";
import type { CompiledPolicy, Mode } from "../../src/core/compiled-policy.ts";
import type { AlgorithmName, Policy } from "../../src/core/policy.ts";
import { compilePolicy } from "../../src/policy/compile-policy.ts";
import { encodeJobs } from "../../src/stores/redis/script-arguments.ts";
import { type Random, randomFrom } from "../../src/testing/random.ts";
import { policyOf } from "../../src/testing/subject.ts";
import { type Counts, type GroupMaker, makeCharge, nameOf, type Run, walk, walkScript } from "./holds-walk.ts";
import { variant } from "./script-variants.js";

const FAST_PATH = "if areTakes then\n";
/** The script without its fast path for groups. */
export const generalScript = variant(walkScript.text.replace(FAST_PATH, "if false then\n"));

/** Options of both walks. */
export interface TakesWalkOptions {
  /** Minimum number of charges. */
  readonly steps: number;
  readonly seed: number;
  readonly run: Run;
  /** The start of all keys. */
  readonly prefix: string;
}

/**
 * Walks over groups of up to eight takes from buckets, windows, logs and penalties, some of them with holds or in other
 * modes, and deletes values whose time to live has ended. Throws at the first difference from `decideGroup`.
 */
export async function walkTakes(
  options: TakesWalkOptions & { readonly remove: (keys: string[]) => Promise<unknown> },
): Promise<Counts> {
  return walk({ ...options, algorithm: "groups", makePolicies, makeGroups });
}

function makePolicies(random: Random): CompiledPolicy[] {
  const names: AlgorithmName[] = ["token-bucket", "leaky-bucket", "fixed-window", "sliding-window"];
  const list = names.flatMap((algorithm): Policy[] => [
    policyOf(algorithm, 5, 1000, `${algorithm}.5`),
    policyOf(algorithm, random.whole(1, 60), random.whole(10, 9000), `${algorithm}.x`),
    { ...policyOf(algorithm, 4, 1001, "plan"), share: true } as Policy,
    { ...policyOf(algorithm, 13, 1001, "plan"), share: true } as Policy,
  ]);
  for (const [i, tokensPerSecond] of [12.34, 1 / 3, 999.983, "3/h"].entries()) {
    list.push({ algorithm: "token-bucket", capacity: 7, tokensPerSecond, name: `odd${i}` } as Policy);
  }
  list.push(policyOf("sliding-log", 6, 900, "log"));
  list.push(concurrency(3, { name: "slots" }));
  list.push(penalty({ blockMs: 200, forgetMs: 1000, name: "penalty" }));
  return list.map(compilePolicy);
}

/** Whether the fast path decides takes of a policy. */
function isPlain({ algorithm }: CompiledPolicy): boolean {
  return !["sliding-log", "concurrency", "penalty"].includes(algorithm.name);
}

const makeGroups: GroupMaker = (policies, random, ends, states) => {
  const plain = policies.filter(isPlain);
  const isOdd = random.whole(1, 4) === 1;
  const keys = random.pick([["a"], ["a", "b"], ["a", "b", "c"]]);
  // Most calls contain groups of one shape, as in production.
  const shape = randomShape(plain, random);
  return Array.from({ length: random.whole(1, 5) }, (): Group => {
    const takes = random.whole(1, 3) > 1 ? shape : randomShape(plain, random);
    const group: Charge[] = takes.map((take) => ({ ...take, key: random.pick(keys) }));
    // Some charge in another mode or on another algorithm, which leaves holds behind, or a strike.
    if (isOdd && random.whole(1, 2) === 1) {
      group.splice(random.whole(0, group.length), 0, oddCharge(policies, random, ends, states));
    }
    // A group names no bucket twice.
    return group.filter((charge, i) => group.findIndex((other) => nameOf(other) === nameOf(charge)) === i);
  });
};

const oddCharge = (...[policies, random, ends, states]: Parameters<GroupMaker>): Charge => {
  const penalties = policies.filter(({ block }) => block);
  const policy = random.pick(random.whole(1, 2) === 1 ? penalties : policies);
  const key = random.pick(["a", "b", "c"]);
  if (policy.block && random.whole(1, 2) === 1) {
    return { policy, key, cost: 1, mode: random.pick<Mode>(["penalty", "penalty", "take"]) };
  }
  // A queue has no holds.
  if (policy.algorithm.name === "leaky-bucket")
    return { policy, key, cost: 1, mode: random.pick<Mode>(["peek", "refund"]) };
  return makeCharge(policy, random, ends, states);
};

function randomShape(policies: readonly CompiledPolicy[], random: Random): Charge[] {
  const size = random.pick([1, 2, 2, 2, 3, 4, 8]);
  return Array.from({ length: size }, () => {
    const policy = random.pick(policies);
    const cost = random.pick([1, 1, 1, 1, 1, 2, random.whole(1, policy.limit), policy.limit, policy.limit + 1]);
    return { policy, key: "a", cost, mode: random.whole(1, 30) === 1 ? "peek" : "take" };
  });
}

const START = 1_790_000_000_000;
/** Of `compareWithGeneral`: what the calls contained. */
export interface ComparedCounts {
  groups: number;
  duplicates: number;
  denied: number;
  errors: number;
  held: number;
  fast: number;
}

/**
 * Runs the same random calls with the script under test and with the one without the fast path, on keys of their own, and
 * expects equal replies, values and times to live: groups that name a bucket twice, values of other programs and other
 * types, damaged values, holds, clocks that step back, and numbers up to 2^53.
 */
export async function compareWithGeneral({
  steps,
  seed,
  run,
  runGeneral,
  put,
  prefix,
}: TakesWalkOptions & {
  readonly runGeneral: Run;
  /** Stores a string or a list, or deletes the key. */
  readonly put: (key: string, value: string | string[] | undefined) => Promise<unknown>;
}): Promise<ComparedCounts> {
  const random = randomFrom(seed);
  const policies = [...makePolicies(random), ...LARGE.map(compilePolicy)];
  const plain = policies.filter(isPlain);
  const counts: ComparedCounts = { groups: 0, duplicates: 0, denied: 0, errors: 0, held: 0, fast: 0 };
  let now = START;
  for (let step = 0; step < steps; ) {
    const gap = random.pick([0, 1, 7, 99, 300, random.whole(0, 1200), 20_000]);
    now = Math.max(START - 100_000, random.whole(1, 10) === 1 ? now - random.whole(0, 3000) : now + gap);
    const shape = randomShape(plain, random);
    const jobs = Array.from({ length: random.whole(1, 5) }, () => {
      const charges = random.whole(1, 3) > 1 ? shape : randomShape(plain, random);
      const steps = charges.map((charge) => {
        const key = random.pick(["a", "b"]);
        return { ...charge, key, storedKey: nameOf({ ...charge, key }), ttlMs: random.pick([0, 5000]) };
      });
      return { steps, slot: 0, callState: undefined, resolve: () => {}, reject: () => {} };
    });
    const { keys, args } = encodeJobs(jobs);
    const odd = random.whole(1, 3) === 1 ? [random.pick(keys)] : [];
    for (const key of odd) {
      const value = oddValue(random, now);
      for (const side of ["fast:", "general:"]) await put(`${prefix}${side}${key}`, value);
    }
    const call = (one: Run, side: string) =>
      one(
        keys.map((key) => `${prefix}${side}${key}`),
        [...args, String(now)],
      );
    const [got, expected] = await Promise.all([call(run, "fast:"), call(runGeneral, "general:")]);
    expect(got, `seed ${seed}, step ${step}, now ${now}\n${keys.join("\n")}\n${args.join("\n")}`).toEqual(expected);
    const [replies, values] = expected as [unknown[], string[]];
    step += keys.length;
    counts.groups += jobs.length;
    if (jobs.some(({ steps }) => new Set(steps.map(({ storedKey }) => storedKey)).size < steps.length))
      counts.duplicates++;
    if (replies.slice(1).some((reply) => typeof reply === "number" && reply < 0)) counts.denied++;
    if (replies.some((reply) => typeof reply === "string")) counts.errors++;
    else counts.fast++;
    if (values.some((value) => value.includes("|"))) counts.held++;
    // A foreign value would fail every later call.
    for (const [k, key] of keys.entries()) {
      const isForeign = typeof replies[1 + k] === "string" || random.whole(1, 60) === 1;
      if (isForeign || odd.includes(key)) {
        for (const side of ["fast:", "general:"]) await put(`${prefix}${side}${key}`, undefined);
      }
    }
  }
  return counts;
}

/** Policies whose numbers come close to 2^53. */
const LARGE: Policy[] = [
  { algorithm: "token-bucket", capacity: 2 ** 31 - 1, tokensPerSecond: 999_983, name: "large.b" } as Policy,
  { algorithm: "token-bucket", capacity: 1_000_000, tokensPerSecond: 12_345.67, name: "large.c" } as Policy,
  { algorithm: "fixed-window", limit: 2 ** 31 - 1, windowMs: 86_400_000, name: "large.f" } as Policy,
  { algorithm: "sliding-window", limit: 1_000_000, windowMs: 3_600_000, name: "large.s" } as Policy,
];

function oddValue(random: Random, now: number): string | string[] {
  const at = random.pick([now, now + 1, now - 1, now + 500, now + 1e9, 0, 2 ** 53 - 1]);
  const n = random.pick([0, 1, 3, 999, 2 ** 31, 2 ** 53 - 1]);
  return random.pick<string | string[]>([
    "",
    "garbage",
    "-1",
    "1.5",
    "0x10",
    "nan",
    "inf",
    "1e300",
    `${at}`,
    `${at}:${n}`,
    `${at}:${n}/1000`,
    `${at}:${n}/0`,
    `${at}:${n}:${n}`,
    `${at}:${n}:1`,
    `${at}:1:`,
    `99999999999999999999:${n}`,
    ["0", `${at}`, "1"],
    ["a list"],
    `${now + 100}|${now}/1/${now + 900} ${now + 900}:1:h1`,
    `|${now}/1/${now + 900} ${now + 900}:1:h1`,
    `${now}:2|${now}/1/${now + 900} ${now + 900}:1:h1`,
    `${now}:1:1|${now}/2/${now + 9} ${now + 9}:2:h1`,
    `|${now}/2/${now + 9} garbage`,
    `${now}:1000|`,
  ]);
}
