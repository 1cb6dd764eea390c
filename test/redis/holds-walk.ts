/**
 * Random walks over charges in all modes: each group is decided by the pure functions and by the script, and every
 * decision, stored state and time to live is compared.
 */
import { concurrency, penalty } from "sluice";
import { holdTerms } from "sluice/algorithms";
import { expect } from "vitest";
import { joinScript, readPart } from "../../scripts/make-redis-script.js";
import type { Charge, Group } from "../../src/core/charge.ts";
import type { CompiledPolicy, Mode } from "../../src/core/compiled-policy.ts";
import type { Decision } from "../../src/core/decision.ts";
import { grantEnd } from "../../src/core/grant.ts";
import type { AlgorithmName, Policy } from "../../src/core/policy.ts";
import { isHeldState, type State } from "../../src/core/state.ts";
import { algorithms } from "../../src/holds/all-algorithms.ts";
import { decideGroup } from "../../src/holds/with-holds.ts";
import { compilePolicy } from "../../src/policy/compile-policy.ts";
import { parseHolds } from "../../src/stores/holds-text.ts";
import type { Job } from "../../src/stores/redis/job.ts";
import { encodeJobs } from "../../src/stores/redis/script-arguments.ts";
import { resolveJobs } from "../../src/stores/redis/script-reply.ts";
import { type Random, randomFrom } from "../../src/testing/random.ts";
import { policyOf } from "../../src/testing/subject.ts";
import { FAKE_CLOCK, variant } from "./script-variants.js";

/** Every algorithm that supports holds, and penalties. */
export const HELD_ALGORITHMS: readonly AlgorithmName[] = Object.values(algorithms)
  .filter(({ queues }) => !queues)
  .map(({ name }) => name);

/** Records times to live and does not set them: values must not expire in real time during a walk on a fake clock. */
const RECORDED_TTLS = `local server, ttlOf = redis, {}
local redis = setmetatable({ pcall = function(command, key, ...)
if command == 'PEXPIRE' then
ttlOf[key] = ...
return 1
elseif command == 'SET' then
local value, _, ttl = ...
ttlOf[key] = ttl
return server.pcall(command, key, value)
elseif command == 'DEL' then
ttlOf[key] = 'none'
end
return server.pcall(command, key, ...)
end }, { __index = server })
`;
/** Also replies the value of each key, and the time to live that the call has given it. */
const WATCHED_REPLY = `local values, ttls = {}, {}
for i = 1, #KEYS do
local isList = redis.call('TYPE', KEYS[i]).ok == 'list'
values[i] = isList and table.concat(redis.call('LRANGE', KEYS[i], 0, -1), ',') or redis.call('GET', KEYS[i]) or ''
ttls[i] = ttlOf[KEYS[i]] or 'unwritten'
end
return { replies, values, ttls }`;
const watched = (part: string) => readPart(part).replace("return replies\n", `${WATCHED_REPLY}\n`);
/** The script with a fake clock. */
export const walkScript = variant(
  joinScript({
    clock: RECORDED_TTLS + FAKE_CLOCK,
    ...Object.fromEntries(["take-tokens", "take-groups", "step"].map((part) => [part, watched(part)])),
  }),
);

/** The same script, which treats all holds as many: a take does not parse them. */
export const manyHoldsScript = variant(
  walkScript.text.replace("local MANY_CHARS, MAX_WINDOWS = 1000,", "local MANY_CHARS, MAX_WINDOWS = 0,"),
);

/** Runs the script with a time and returns its reply. */
export type Run = (keys: string[], args: string[]) => Promise<unknown>;

/** Makes the groups of one call, given the ends of some grants and the states by the name of their bucket. */
export type GroupMaker = (
  policies: readonly CompiledPolicy[],
  random: Random,
  ends: ReadonlyMap<string, number>,
  states: ReadonlyMap<string, State>,
) => Group[];

/** Options of a walk. */
export interface WalkOptions {
  /** The algorithm of most policies, or the name of a walk with policies of its own. */
  readonly algorithm: AlgorithmName | "groups";
  /** Minimum number of charges. */
  readonly steps: number;
  readonly seed: number;
  readonly run: Run;
  /** The start of all keys. */
  readonly prefix: string;
  /** Whether holds are treated as many: the time to live after a take is up to four windows longer than needed. */
  readonly isMany?: boolean;
  /** Policies and groups of another walk. */
  readonly makePolicies?: (random: Random) => CompiledPolicy[];
  readonly makeGroups?: GroupMaker;
  /** Deletes keys. If it is present, values are deleted some time after their time to live has ended. */
  readonly remove?: (keys: string[]) => Promise<unknown>;
}

const NO_COUNTS = {
  ...{ admitted: 0, denied: 0, never: 0, back: 0, grants: 0, ttls: 0, blocked: 0, strikes: 0 },
  ...{ holds: 0, settled: 0, missing: 0, heldValues: 0, heldTakes: 0, debts: 0, forgiven: 0, earliest: 0 },
  ...{ groups: 0, deniedGroups: 0, expired: 0 },
};
/** Counts of the kinds of steps in a walk. */
export type Counts = typeof NO_COUNTS;

/** Walks, and returns the counts. Throws at the first difference. */
export async function walk(options: WalkOptions): Promise<Counts> {
  const { algorithm, steps, seed, run, prefix, isMany, remove } = options;
  const random = randomFrom(seed);
  const policies = options.makePolicies?.(random) ?? makePolicies(algorithm as AlgorithmName, random);
  const nextGroups = options.makeGroups ?? makeGroups;
  const expireAt = new Map<string, number>();
  const states = new Map<string, State>();
  const ends = new Map<string, number>();
  const counts = { ...NO_COUNTS };
  const count = (what: keyof Counts) => counts[what]++;
  const times: number[] = [];
  let now = 1_790_000_000_000 + random.whole(0, 10_000);
  for (let step = 0; step < steps; ) {
    const isBack = random.whole(1, 12) === 1;
    // Some steps lead back to an earlier time, at which a grant may end exactly one window later.
    const to = isBack ? random.pick([now - 1, now - 300, now - random.whole(0, 3000), ...times]) : now + gap(random);
    now = Math.max(to, now - 5000);
    times.push(now);
    if (times.length > 3) times.shift();
    if (isBack) count("back");
    if (remove && random.whole(1, 3) === 1) {
      const expired = [...expireAt].filter(([, endsAt]) => endsAt <= now).map(([name]) => name);
      for (const name of expired) {
        count("expired");
        states.delete(name);
        expireAt.delete(name);
      }
      if (expired.length > 0) await remove(expired.map((name) => `${prefix}${algorithm}${name}`));
    }
    const groups = nextGroups(policies, random, ends, states);
    const { got, values, ttls } = await runJobs(groups, now, run, `${prefix}${algorithm}`);
    const written = new Map<string, number>();
    for (const [i, group] of groups.entries()) {
      step += group.length;
      const results = decideGroup(group, (charge) => states.get(nameOf(charge)), now);
      const context = `${algorithm}, seed ${seed}, step ${step}, now ${now}, group ${i} of ${groups.length}:\n${group
        .map((charge) => `${describeCharge(charge)} <- ${JSON.stringify(states.get(nameOf(charge)))}`)
        .join("\n")}\n`;
      expect(got[i], context).toEqual(results.map(({ decision }) => decision));
      if (group.length > 1) count("groups");
      if (group.length > 1 && results.some(({ decision }) => !decision.allowed)) count("deniedGroups");
      for (const [c, { decision, state, changed, ttlMs }] of results.entries()) {
        const charge = group[c] as Charge;
        const name = nameOf(charge);
        if (decision.allowed && results.every(({ decision }) => decision.allowed)) {
          expect(grantEnd(got[i]?.[c] as Decision), `grant of ${context}`).toBe(grantEnd(decision));
          const endsAt = grantEnd(decision);
          if (endsAt !== undefined && charge.cost > 0 && random.whole(1, 3) === 1) ends.set(name, endsAt);
        }
        tally(charge, decision, states.get(name), count);
        if (!changed) continue;
        written.set(name, Math.max(1, ttlMs));
        if (size(state) === 0) states.delete(name);
        else states.set(name, state);
      }
    }
    const names = groups.flat().map(nameOf);
    for (const [k, name] of names.entries()) {
      const context = `${algorithm}, seed ${seed}, step ${step}, now ${now}, ${name}: ${values[k]}`;
      const state = states.get(name);
      const policy = policies.find(({ id }) => name.endsWith(id)) as CompiledPolicy;
      expect(parseStored(values[k] as string, policy), context).toEqual(state);
      if (isHeldState(state)) count("heldValues");
      // A write that changes nothing is allowed, so the time to live is checked only after a change.
      if (!written.has(name)) continue;
      const exact = written.get(name) as number;
      if (state) expireAt.set(name, now + exact);
      else expireAt.delete(name);
      if (isMany && isHeldState(state)) {
        expect(Number(ttls[k]), `time to live: ${context}`).toBeGreaterThanOrEqual(exact);
        expect(Number(ttls[k]), `time to live: ${context}`).toBeLessThanOrEqual(exact + 4 * policy.windowMs);
      } else {
        expect(ttls[k], `time to live: ${context}`).toBe(state ? String(exact) : "none");
      }
      count("ttls");
    }
  }
  return counts;
}

function tally(charge: Charge, decision: Decision, before: State | undefined, count: (what: keyof Counts) => void) {
  const { mode, grantEndsAt } = charge;
  if (decision.allowed) count("admitted");
  else count(decision.retryAfterMs === null ? "never" : "denied");
  if (mode === "hold" && decision.allowed) count("holds");
  if (mode === "settle") count(decision.allowed ? "settled" : "missing");
  if (mode === "take" && isHeldState(before)) count("heldTakes");
  if (grantEndsAt !== undefined) count("grants");
  if (isHeldState(before) && before.debt) count("debts");
  if (decision.forgiven !== undefined) count("forgiven");
  if (!decision.allowed && decision.earliestRetryMs !== undefined) count("earliest");
  if (charge.policy.block && !decision.allowed && decision.retryAfterMs !== null) count("blocked");
  if (charge.policy.block && mode === "penalty" && decision.resetAfterMs > 0) count("strikes");
}

function gap(random: Random): number {
  return random.pick([0, 0, 0, 1, 7, 50, 99, 300, random.whole(0, 1200), random.whole(1, 20) === 1 ? 20_000 : 1]);
}

const KEYS = ["a", "b", "c"];
const IDS = ["h1", "h2", "h3", "x~4.a-b_C", "h5"];

function makePolicies(algorithm: AlgorithmName, random: Random): CompiledPolicy[] {
  const list: Policy[] = [];
  if (algorithm === "penalty") {
    for (const [i, forgetMs] of [400, 5000, 1000, 1000].entries()) {
      const numbers = { strikes: random.whole(1, 3), blockMs: random.whole(1, 900), factor: random.whole(1, 3) };
      const shared = i < 2 ? { name: `p${i}` } : { name: "plan", share: true };
      list.push(penalty({ ...numbers, maxBlockMs: random.whole(900, 4000), forgetMs, ...shared }));
    }
    list.push(policyOf("fixed-window", 3, 1000, "rate"), policyOf("token-bucket", 3, 700, "tokens"));
  } else if (algorithm === "concurrency") {
    for (const limit of [1, 4, 9]) list.push(concurrency(limit, { name: `p${limit}` }));
    for (const limit of [2, 6]) list.push(concurrency(limit, { name: "plan", share: true }));
  } else {
    for (const [limit, spanMs] of [
      [1, 10],
      [5, 1000],
      [10, 333],
      [random.whole(1, 60), random.whole(10, 9000)],
    ] as const) {
      list.push(policyOf(algorithm, limit, spanMs, `p${limit}.${spanMs}`));
    }
    for (const limit of [4, 13]) list.push({ ...policyOf(algorithm, limit, 1001, "plan"), share: true } as Policy);
    if (algorithm === "token-bucket") {
      list.push({ algorithm, capacity: 7, tokensPerSecond: 12.34, name: "odd" } as Policy);
    }
    list.push(penalty({ blockMs: 200, forgetMs: 1000, name: "penalty" }));
  }
  return list.map(compilePolicy);
}

function makeGroups(
  policies: readonly CompiledPolicy[],
  random: Random,
  ends: ReadonlyMap<string, number>,
  states: ReadonlyMap<string, State>,
): Group[] {
  const count = random.whole(1, 6);
  // Some calls contain only takes of one policy and cost, as most calls do in production.
  const same = random.whole(1, 4) === 1 ? random.pick(policies) : undefined;
  const cost = random.pick([1, 1, 2]);
  return Array.from({ length: count }, (): Group => {
    if (same) return [{ policy: same, key: random.pick(KEYS), cost, mode: "take" }];
    const group: Charge[] = [];
    for (let size = random.pick([1, 1, 2, 3]); size > 0; size--) {
      const charge = makeCharge(random.pick(policies), random, ends, states);
      if (!group.some((other) => nameOf(other) === nameOf(charge))) group.push(charge);
    }
    return group;
  });
}

/** Makes a charge in any mode. */
export function makeCharge(
  policy: CompiledPolicy,
  random: Random,
  ends: ReadonlyMap<string, number>,
  states: ReadonlyMap<string, State>,
): Charge {
  const modes: Mode[] = ["take", "take", "peek", "refund", "hold", "hold", "hold", "settle", "settle", "penalty"];
  const mode = random.whole(1, 60) === 1 ? "reset" : random.pick(modes);
  const most = policy.block ? 4 : policy.limit;
  const costs = [0, 1, 1, 1, 2, random.whole(1, most), policy.limit, most + 1];
  const cost = random.pick(mode === "settle" ? [...costs, 3 * most, 3 * most] : costs);
  const charge: Charge = { policy, key: random.pick(KEYS), cost: mode === "hold" ? Math.max(1, cost) : cost, mode };
  if (mode === "refund" && random.whole(1, 2) === 1) return { ...charge, grantEndsAt: ends.get(nameOf(charge)) };
  if (mode !== "hold" && mode !== "settle") return charge;
  const forMs = mode === "settle" ? 0 : random.pick([1, 50, 500, random.whole(1, 3000), random.whole(1, 30_000)]);
  // Most settlements, and some holds, are of a hold that exists.
  const state = states.get(nameOf(charge));
  const known = isHeldState(state) ? state.holds.map(({ id }) => id) : [];
  const isKnown = known.length > 0 && random.whole(1, 5) > (mode === "settle" ? 1 : 3);
  return { ...charge, hold: holdTerms(random.pick(isKnown ? known : IDS), forMs) };
}

async function runJobs(groups: readonly Group[], now: number, run: Run, prefix: string) {
  const got: Decision[][] = [];
  const jobs = groups.map((group, i): Job => {
    const steps = group.map((charge) => ({ ...charge, storedKey: `${prefix}${nameOf(charge)}`, ttlMs: 0 }));
    const resolve = (decisions: Decision[]) => (got[i] = decisions);
    return { steps, slot: 0, callState: undefined, resolve, reject: (error) => expect.fail(String(error)) };
  });
  const { keys, args } = encodeJobs(jobs);
  const reply = await run(keys, [...args, String(now)]);
  const [replies, values, ttls] = reply as [unknown, unknown[], unknown[]];
  expect(resolveJobs(jobs, replies)).toEqual([]);
  return { got, values: values.map(String), ttls: ttls.map(String) };
}

/** Parses a value of Redis, or a list joined by commas, without the code under test. `undefined`: there is none. */
function parseStored(value: string, { algorithm }: CompiledPolicy): State | undefined {
  if (value === "") return undefined;
  const [, first = "", held, grants = ""] = /^([\d:/]*)(?:\|([^,]*))?(,[\d,]*)?$/.exec(value) ?? expect.fail(value);
  let base = first === "" ? [] : first.split(/[:/]/).map(Number);
  if (algorithm.list) {
    const numbers = grants.split(",").slice(1).map(Number);
    let total = base[0] as number;
    const pairs = numbers.map((n, i) => (i % 2 === 0 ? n : -total + (total = n)));
    base = pairs.length === 0 ? [] : [total - (base[0] as number), ...pairs];
  } else if (base.length > 0) {
    base = [...base, 0, 0].slice(0, algorithm.width);
  }
  if (held === undefined) return base;
  return { base, ...(parseHolds(held) ?? expect.fail(value)) };
}

function size(state: State): number {
  return isHeldState(state) ? 1 : state.length;
}

/** The name of a charge's bucket. */
export function nameOf({ key, policy }: Charge): string {
  return `{${key}}${policy.id}`;
}

function describeCharge({ policy, key, cost, mode, hold, grantEndsAt }: Charge): string {
  const { name, limit, windowMs, unitsPerMs, unitsPerToken } = policy;
  const numbers = `${limit}, ${windowMs} ms, ${unitsPerMs}/${unitsPerToken}`;
  return `${mode} ${cost} of ${key} under ${name} (${numbers}) ${JSON.stringify({ hold, grantEndsAt })}`;
}
