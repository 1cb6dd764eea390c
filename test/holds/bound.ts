/**
 * The bound of actual use, without a model: jobs hold an estimate, use something at unknown instants until they are
 * settled, or never are. Over every interval, all jobs that run in it use at most what the policy allows, besides what they
 * use beyond their own estimates.
 */

import type { Charge, CompiledPolicy } from "sluice";
import { concurrency } from "sluice";
import { compilePolicy, type decide, type State } from "sluice/algorithms";
import { type Random, randomFrom } from "../../src/testing/random.ts";
import { HELD_ALGORITHMS, type HeldAlgorithm } from "./held-samples.ts";
import { Tally } from "./held-walk.ts";

interface Job {
  readonly id: string;
  readonly from: number;
  readonly estimate: number;
  /** When it was over: settled, or at the end of its hold. */
  to: number;
  actual: number;
}

type Decide = typeof decide;

/**
 * Plays random traces and checks every interval. Throws at the first one that exceeds the bound. With `losesState`, the
 * store loses the bucket now and then; each loss may admit one limit more.
 */
export function checkBound(step: Decide, traces: number, seed: number, losesState = false): Tally {
  const random = randomFrom(seed);
  const tally = new Tally();
  let leastRoom = Number.POSITIVE_INFINITY;
  for (let trace = 0; trace < traces; trace++) {
    const name = random.pick(HELD_ALGORITHMS);
    const policy = smallPolicy(name, random);
    const overruns = random.whole(1, 10) <= 3;
    const { jobs, losses } = play(step, policy, random, { overruns, losesState }, tally);
    tally.count("losses", losses);
    for (const { fromMs, toMs, room: ownRoom } of intervals(policy, jobs)) {
      const room = ownRoom + losses * policy.limit;
      tally.count("intervals");
      if (!overruns) leastRoom = Math.min(leastRoom, room);
      if (room >= 0) continue;
      const text = jobs.map(({ from, to, actual, estimate }) => `${actual} of ${estimate} in ${from}-${to}`).join(", ");
      throw new Error(
        `${-room} too many in ${fromMs}-${toMs} under ${policy.name}, SLUICE_SEED=${seed} trace ${trace}: ${text}`,
      );
    }
    tally.count(name);
    tally.count("jobs", jobs.length);
  }
  tally.set("least room", leastRoom);
  return tally;
}

function smallPolicy(name: HeldAlgorithm, random: Random): CompiledPolicy {
  const limit = random.whole(2, 12);
  const windowMs = random.whole(5, 60);
  if (name === "token-bucket") {
    return compilePolicy({ capacity: limit, tokensPerSecond: `${random.whole(1, 4)}/${random.whole(4, 20)}ms` });
  }
  if (name === "concurrency") return compilePolicy(concurrency(limit, { leaseMs: windowMs }));
  return compilePolicy({ algorithm: name, limit, windowMs });
}

/** Holds or takes whatever fits, and settles some jobs, some of them twice. The others end. */
function play(
  step: Decide,
  policy: CompiledPolicy,
  random: Random,
  { overruns, losesState }: { overruns: boolean; losesState: boolean },
  tally: Tally,
): { jobs: Job[]; losses: number } {
  let state: State | undefined;
  let losses = 0;
  let now = 1_000_000 + random.whole(0, 1000);
  const apply = (charge: Pick<Charge, "cost" | "mode" | "hold">): boolean => {
    const { decision, changed, state: next } = step(state, { policy, key: "key", ...charge }, now);
    if (changed) state = next;
    return decision.allowed;
  };
  const jobs: Job[] = [];
  let open: Job[] = [];
  for (let i = 0; i < 60; i++) {
    now += random.pick([0, 0, 0, 1, 1, 2, random.whole(0, 10), random.whole(0, policy.windowMs)]);
    const ended = open.filter(({ to }) => to <= now);
    open = open.filter(({ to }) => to > now);
    tally.count("jobs that were never settled", ended.length);
    if (losesState && random.whole(1, 40) === 1) {
      state = undefined;
      losses++;
    }
    if (open.length > 0 && random.whole(1, 3) === 1) {
      const job = random.pick(open);
      const exceeds = overruns && random.whole(1, 10) <= 3;
      const actual = exceeds ? random.whole(job.estimate, 2 * policy.limit) : random.whole(0, job.estimate);
      const settle = { cost: actual, mode: "settle", hold: { id: job.id, forMs: 0 } } as const;
      if (!apply(settle) && losses === 0)
        throw new Error(`the hold of ${job.from}-${job.to} was missing at ${now} under ${policy.name}`);
      Object.assign(job, { actual, to: now });
      open = open.filter((other) => other !== job);
      // Twice, as after a lost reply.
      if (random.whole(1, 3) === 1) apply(settle);
      tally.count("settled jobs");
      continue;
    }
    const estimate = random.whole(1, Math.ceil(policy.limit / 2));
    if (policy.kind !== "concurrency" && random.whole(1, 4) === 1) {
      if (apply({ cost: estimate, mode: "take" }))
        jobs.push({ id: "", from: now, to: now, estimate, actual: estimate });
      continue;
    }
    const forMs = random.pick([1, 5, random.whole(1, 3 * policy.windowMs)]);
    const id = `j${jobs.length}`;
    if (!apply({ cost: estimate, mode: "hold", hold: { id, forMs } })) continue;
    const job = { id, from: now, to: now + forMs, estimate, actual: estimate };
    jobs.push(job);
    open.push(job);
  }
  return { jobs, losses };
}

interface Interval {
  readonly fromMs: number;
  readonly toMs: number;
  /** What was left of the bound. */
  readonly room: number;
}

/** Every interval that can be the worst: it starts where a job is over, and ends where one starts. */
function* intervals(policy: CompiledPolicy, jobs: readonly Job[]): Generator<Interval> {
  const { limit, windowMs, algorithm, kind, unitsPerMs, unitsPerToken } = policy;
  const interval = (fromMs: number, toMs: number, bound: number): Interval => {
    let used = 0;
    for (const { from, to, actual, estimate } of jobs) {
      if (from <= toMs && to >= fromMs) used += Math.min(actual, estimate);
    }
    return { fromMs, toMs, room: bound - used };
  };
  if (kind === "concurrency") {
    // At one instant. A job that is over has left by then.
    for (const { from: at } of jobs) {
      const running = jobs.filter(({ from, to }) => from <= at && to > at);
      yield { fromMs: at, toMs: at, room: running.reduce((left, { estimate }) => left - estimate, limit) };
    }
    return;
  }
  if (algorithm.name === "fixed-window" || algorithm.name === "sliding-window") {
    const starts = jobs.flatMap(({ from, to }) => [from - (from % windowMs), to - (to % windowMs)]);
    for (const start of new Set(starts)) yield interval(start, start + windowMs - 1, limit);
    return;
  }
  for (const { to: fromMs } of jobs) {
    for (const { from: toMs } of jobs) {
      if (toMs < fromMs) continue;
      if (unitsPerMs > 0)
        yield interval(fromMs, toMs, Math.floor(limit + ((toMs - fromMs) * unitsPerMs) / unitsPerToken));
      else if (toMs < fromMs + windowMs) yield interval(fromMs, toMs, limit);
    }
  }
}

/** Checks that a hold that is never settled leaves the same bucket as one that is settled in full at its end. */
export function checkEnds(step: Decide, cases: number, seed: number): void {
  const random = randomFrom(seed);
  const names = HELD_ALGORITHMS.filter((name) => name !== "concurrency");
  for (let i = 0; i < cases; i++) {
    const policy = smallPolicy(random.pick(names), random);
    const start = 1_000_000 + random.whole(0, 1000);
    const holds = Array.from({ length: random.whole(1, 4) }, (_, h) => ({
      id: `h${h}`,
      at: start + random.whole(0, 20),
      forMs: random.whole(1, 60),
      cost: random.whole(1, policy.limit),
    })).sort((a, b) => a.at - b.at);
    const lateBy = [100, 101, 105, 130, 200];
    const [ended, settled] = [false, true].map((settles) => {
      let state: State | undefined;
      const apply = (charge: Pick<Charge, "cost" | "mode" | "hold">, now: number): boolean => {
        const { decision, changed, state: next } = step(state, { policy, key: "key", ...charge }, now);
        if (changed) state = next;
        return decision.allowed;
      };
      const ends: (typeof holds)[number][] = [];
      const settleUntil = (now: number): void => {
        ends.sort((a, b) => a.at + a.forMs - (b.at + b.forMs));
        while (ends[0] && ends[0].at + ends[0].forMs <= now) {
          const { id, cost, at, forMs } = ends.shift() as (typeof holds)[number];
          apply({ cost, mode: "settle", hold: { id, forMs: 0 } }, at + forMs);
        }
      };
      for (const hold of holds) {
        const { id, at, forMs, cost } = hold;
        settleUntil(at);
        const isHeld = apply({ cost, mode: "hold", hold: { id, forMs: settles ? forMs + 1000 : forMs } }, at);
        if (isHeld && settles) ends.push(hold);
      }
      settleUntil(Number.POSITIVE_INFINITY);
      const peek = { policy, key: "key", cost: policy.limit, mode: "peek" } as const;
      return JSON.stringify(lateBy.map((ms) => step(state, peek, start + ms).decision));
    });
    if (ended === settled) continue;
    throw new Error(
      `${policy.name}, SLUICE_SEED=${seed} case ${i}: ended: ${ended}, but settled at the end: ${settled}`,
    );
  }
}
