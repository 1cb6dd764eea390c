/** Compares the Lua script on a real Redis with the pure algorithms. */

import { readFileSync } from "node:fs";
import { fakeClock } from "sluice/testing";
import { beforeAll, describe, expect, it } from "vitest";
import { readPart, scriptModule, shaOf } from "../../scripts/make-redis-script.js";
import { leastCount, scaled } from "../../scripts/scale.js";
import type { Charge, Group } from "../../src/core/charge.ts";
import type { CompiledPolicy, Mode } from "../../src/core/compiled-policy.ts";
import { decide } from "../../src/core/decide.ts";
import type { Decision } from "../../src/core/decision.ts";
import type { AlgorithmName } from "../../src/core/policy.ts";
import type { PlainState, State } from "../../src/core/state.ts";
import { memoryStore } from "../../src/memory/memory-store.ts";
import { compilePolicy } from "../../src/policy/compile-policy.ts";
import type { Job } from "../../src/stores/redis/job.ts";
import { script, sha } from "../../src/stores/redis/script.ts";
import { encodeJobs } from "../../src/stores/redis/script-arguments.ts";
import { resolveJobs } from "../../src/stores/redis/script-reply.ts";
import { randomFrom } from "../../src/testing/random.ts";
import { ALGORITHMS, policyOf } from "../../src/testing/subject.ts";
import { withRedis } from "../servers/needs.ts";
import { redis } from "./own-redis.ts";
import { FAKE_CLOCK, fakeClockScript, LOGGED_REPLY, loggedScript } from "./script-variants.js";

/** The commands that the script calls. docs/stores/redis.md lists them for an ACL. */
const COMMANDS = [
  "DEL",
  "GET",
  "LLEN",
  "LPUSH",
  "LRANGE",
  "LSET",
  "LTRIM",
  "PEXPIRE",
  "PTTL",
  "RPUSH",
  "SET",
  "SETRANGE",
  "TIME",
];
const STEPS = scaled(100_000);
const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
beforeAll(async () => {
  await redis.script("LOAD", fakeClockScript.text);
});

describe("the script", withRedis, () => {
  it("is generated from the current Lua files", () => {
    const file = new URL("../../src/stores/redis/script.ts", import.meta.url);
    expect(readFileSync(file, "utf8"), "stale: node scripts/make-redis-script.js").toBe(scriptModule());
    expect(shaOf(script)).toBe(sha);
  });

  it("has test variants that differ only in the clock and the reply", () => {
    const clock = readPart("clock").trim().split("\n").slice(1).join("\n");
    expect(clock.split("\n")).toHaveLength(2);
    expect(script.split(clock)).toHaveLength(2);
    expect(fakeClockScript.text).toBe(script.replace(clock, FAKE_CLOCK));
    expect(script.split("\nreturn replies")).toHaveLength(4);
    expect(loggedScript.text).toBe(script.replaceAll("return replies", LOGGED_REPLY));
  });

  it("declares no globals and calls only the commands of the documented ACL", () => {
    for (const line of script.split("\n")) {
      expect(line, "a global function").not.toMatch(/^function /);
    }
    expect(script).not.toMatch(/\b(EXPIRE|HSET|ZADD|SCAN|KEYS \*)\b/);
    const commands = [...script.matchAll(/(?:call\(|try\(|\{ )'([A-Z]+)'/g)].map(([, command]) => command);
    expect([...new Set(commands)].sort()).toEqual(COMMANDS);
    const page = readFileSync(new URL("../../docs/stores/redis.md", import.meta.url), "utf8");
    const acl = [...page.matchAll(/^ACL SETUSER .*$/gm)].join(" ").split(" ");
    for (const command of COMMANDS) expect(acl, "the ACL in the docs").toContain(`+${command.toLowerCase()}`);
  });
});

/** Random jobs and groups on the policies of one algorithm, at times that also step back. */
describe(`the script against the pure functions (seed ${seed})`, withRedis, () => {
  it.each(ALGORITHMS)(`%s: ${STEPS} random steps give equal decisions`, async (algorithm) => {
    const random = randomFrom(seed);
    const clock = fakeClock(1_790_000_000_000);
    const memory = memoryStore({ clock });
    const policies = makePolicies(algorithm, random);
    const keys = Array.from({ length: 12 }, (_, i) => `k${i}`);
    const states = new Map<string, State>();
    const counts = { allowed: 0, denied: 0, never: 0, back: 0, groups: 0, grants: 0 };
    // When some grants expire, by key and policy, for refunds of one grant.
    const ends = new Map<string, number>();
    for (let step = 0; step < STEPS; ) {
      const spans = policies.map(({ windowMs }) => windowMs);
      const gap = random.pick([0, 1, 7, 50, 99, random.pick(spans), random.whole(0, 2 * random.pick(spans))]);
      const back = random.whole(1, 12) === 1 ? random.whole(0, random.pick([5, 3 * random.pick(spans)])) : 0;
      counts.back += back > 0 ? 1 : 0;
      clock.advance(back > 0 ? -Math.min(back, clock.now() - 1) : Math.min(gap, 2 ** 51 - clock.now()));
      const now = clock.now();
      const groups: (Group | { reset: CompiledPolicy; key: string })[] = [];
      // Some calls contain only takes of one policy and cost, as most calls do in production.
      const same = random.whole(1, 3) === 1 ? random.pick(policies) : undefined;
      const cost = same && random.pick([1, 1, 2, same.limit, same.limit + 1]);
      for (let i = 0; i < 24; i++) {
        if (same && cost) groups.push([{ policy: same, key: random.pick(keys), cost, mode: "take" }]);
        else groups.push(randomGroup(policies, keys, random, ends));
      }
      const got = await runOnRedis(algorithm, groups, now);
      for (const [i, group] of groups.entries()) {
        if ("reset" in group) {
          memory.applySync([{ policy: group.reset, key: group.key, cost: 0, mode: "reset" }]);
          states.delete(`${group.key} ${group.reset.id}`);
          continue;
        }
        step += group.length;
        const expected = memory.applySync(group);
        const context = `${algorithm}, seed ${seed}, step ${step}, now ${now}: ${group.map(describeCharge).join(" + ")}`;
        expect(got[i], context).toEqual(expected);
        if (group.length > 1) counts.groups++;
        for (const [c, decision] of expected.entries()) {
          const { key, policy, mode, cost, grantEndsAt } = group[c] as Charge;
          if (mode === "take" && decision.allowed && cost > 0 && random.whole(1, 3) === 1) {
            ends.set(`${key} ${policy.id}`, now + decision.resetAfterMs);
          }
          if (grantEndsAt !== undefined) counts.grants++;
          if (decision.allowed) counts.allowed++;
          else if (decision.retryAfterMs === null) counts.never++;
          else counts.denied++;
        }
        if (group.length === 1) {
          const [charge] = group as [Charge];
          const name = `${charge.key} ${charge.policy.id}`;
          const outcome = decide(states.get(name), charge, now);
          expect(got[i]?.[0], context).toEqual(outcome.decision);
          if (outcome.changed) states.set(name, outcome.state);
        } else for (const { key, policy } of group) await copyState(states, memory, key, policy);
      }
    }
    for (const [what, count] of Object.entries(counts)) expect(count, what).toBeGreaterThan(leastCount(STEPS / 2000));
  });
});

describe(`long logs against the pure functions (seed ${seed})`, withRedis, () => {
  it("give equal decisions with up to 3000 grants, also after refunds and clock steps", async () => {
    const random = randomFrom(seed);
    const clock = fakeClock(1_790_000_000_000);
    const memory = memoryStore({ clock });
    const policy = compilePolicy({ algorithm: "sliding-log", limit: 3000, windowMs: 100_000, name: "long" });
    const counts = { allowed: 0, denied: 0, refund: 0, long: 0, grants: 0 };
    for (let round = 0; round < Math.max(3, STEPS / 20_000); round++) {
      const key = `k${round}`;
      const ends: number[] = [];
      const compare = async (...charges: Omit<Charge, "policy" | "key">[]): Promise<void> => {
        const groups = charges.map((charge): [Charge] => [{ ...charge, policy, key }]);
        const got = await runOnRedis("long", groups, clock.now());
        for (const [i, [charge]] of groups.entries()) {
          const [expected] = memory.applySync([charge]) as [Decision];
          expect(got[i]?.[0], `seed ${seed}, round ${round}, now ${clock.now()}: ${describeCharge(charge)}`).toEqual(
            expected,
          );
          counts[charge.mode === "refund" ? "refund" : expected.allowed ? "allowed" : "denied"]++;
          if (charge.mode === "take" && expected.allowed) ends.push(clock.now() + expected.resetAfterMs);
        }
      };
      // Evenly spaced, in bursts, or at increasing distances.
      const gap = random.pick([() => 20, () => (random.whole(1, 50) === 1 ? 1000 : 1), (i: number) => 1 + (i >> 5)]);
      for (let i = 0, most = random.whole(1000, 2900); i < most; i++) {
        clock.advance(gap(i));
        await compare({ cost: random.whole(1, 30) === 1 ? 3 : 1, mode: "take" });
      }
      for (let i = 0; i < 300; i++) {
        const odd = random.whole(1, 40);
        if (odd === 1) clock.advance(-random.pick([1, 50, 5000, random.whole(1, 99_999)]));
        else clock.advance(odd === 2 ? random.whole(1, 30_000) : random.whole(0, 60));
        if ((await redis.llen(`long{${key}}${policy.id}`)) > 1000) counts.long++;
        await compare(
          { cost: 1, mode: "take" },
          { cost: random.whole(1, 3001), mode: "peek" },
          { cost: random.whole(1, 20) === 1 ? random.whole(1, 500) : 1, mode: random.pick<Mode>(["refund", "take"]) },
        );
        // A refund of one grant, wherever it is in the log.
        if (random.whole(1, 3) > 1) continue;
        const grantEndsAt = random.pick(ends);
        if (grantEndsAt > clock.now()) counts.grants++;
        await compare({ cost: random.whole(1, 3), mode: "refund", grantEndsAt }, { cost: 1, mode: "peek" });
      }
      // The stored list is the pure state, with running totals for costs.
      await compare({ cost: 1, mode: "take" });
      const states = new Map<string, State>();
      await copyState(states, memory, key, policy);
      const [base = 0, ...grants] = (await redis.lrange(`long{${key}}${policy.id}`, 0, -1)).map(Number);
      const costs = grants.map((value, i) =>
        i % 2 === 0 ? value : value - (i === 1 ? base : (grants[i - 2] as number)),
      );
      expect(costs).toEqual((states.get(`${key} ${policy.id}`) as PlainState | undefined)?.slice(1));
    }
    for (const [what, count] of Object.entries(counts)) expect(count, what).toBeGreaterThan(50);
  });
});

/** Copies the state of a bucket from the memory store, after a group. */
async function copyState(
  states: Map<string, State>,
  memory: ReturnType<typeof memoryStore>,
  key: string,
  policy: CompiledPolicy,
): Promise<void> {
  const buckets = memory.open(policy) as unknown as { read(name: string): readonly number[] | undefined };
  const state = buckets.read(key);
  if (state === undefined) states.delete(`${key} ${policy.id}`);
  else states.set(`${key} ${policy.id}`, [...state]);
}

function makePolicies(algorithm: AlgorithmName, random: ReturnType<typeof randomFrom>): CompiledPolicy[] {
  const most = algorithm === "sliding-log" ? 2000 : 1_000_000;
  const spans = [
    [1, 1],
    [3, 1000],
    [10, 1000],
    [7, 3333],
    [600, 60_000],
    [1, 86_400_000],
    [Math.min(most, 100_000), 3_600_000],
    [random.whole(1, most), random.whole(10, 10_000_000)],
  ] as const;
  const policies = spans.map(([limit, spanMs], i) => compilePolicy(policyOf(algorithm, limit, spanMs, `p${i}`)));
  // Plans that share a bucket: one reads what the other wrote.
  const shared = [5, 50].map((limit) =>
    compilePolicy({ ...policyOf(algorithm, limit, limit * 77, "plan"), share: true } as never),
  );
  if (algorithm !== "token-bucket" && algorithm !== "leaky-bucket") return [...policies, ...shared];
  const rate = algorithm === "token-bucket" ? "tokensPerSecond" : "leaksPerSecond";
  const odd = [0.1, 1 / 3, 12_345.67, "3/h", 999_983, 1e-3].map((value, i) =>
    compilePolicy({ algorithm, capacity: random.pick([1000, 1234]), [rate]: value, name: `odd${i}` } as never),
  );
  return [...policies, ...shared, ...odd];
}

function randomGroup(
  policies: CompiledPolicy[],
  keys: string[],
  random: ReturnType<typeof randomFrom>,
  ends: ReadonlyMap<string, number>,
): Group | { reset: CompiledPolicy; key: string } {
  if (random.whole(1, 40) === 1) return { reset: random.pick(policies), key: random.pick(keys) };
  const size = random.whole(1, 5) === 1 ? random.whole(2, 4) : 1;
  const group: Charge[] = [];
  for (let i = 0; i < size; i++) {
    const policy = random.pick(policies);
    const key = random.pick(keys);
    if (group.some((other) => other.key === key && other.policy.id === policy.id)) continue;
    const cost = random.pick([0, 1, 1, 1, 2, random.whole(1, policy.limit), policy.limit, policy.limit + 1]);
    const mode = random.pick<Mode>(["take", "take", "take", "take", "peek", "refund"]);
    const grantEndsAt = mode === "refund" && random.whole(1, 3) > 1 ? ends.get(`${key} ${policy.id}`) : undefined;
    group.push({ policy, key, cost, mode, grantEndsAt });
  }
  return group;
}

async function runOnRedis(
  algorithm: string,
  groups: (Group | { reset: CompiledPolicy; key: string })[],
  now: number,
): Promise<Decision[][]> {
  const results: Decision[][] = [];
  const jobs = groups.map((group, i): Job => {
    const charges =
      "reset" in group ? [{ policy: group.reset, key: group.key, cost: 0, mode: "reset" as const }] : group;
    return {
      steps: charges.map((charge) => ({
        ...charge,
        storedKey: `${algorithm}{${charge.key}}${charge.policy.id}`,
        ttlMs: 3_600_000,
      })),
      slot: 0,
      callState: undefined,
      resolve: (decisions) => (results[i] = decisions),
      reject: (error) => {
        throw error;
      },
    };
  });
  const { keys, args } = encodeJobs(jobs);
  const reply = await redis.evalsha(fakeClockScript.sha, keys.length, ...keys, ...args, String(now));
  expect(resolveJobs(jobs, reply)).toEqual([]);
  return results;
}

function describeCharge({ policy, key, cost, mode }: Charge): string {
  return `${mode} ${cost} of ${key} under ${policy.name} (${policy.limit}, ${policy.unitsPerMs}/${policy.unitsPerToken}, ${policy.windowMs} ms)`;
}
