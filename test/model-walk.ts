/** Random walks of the algorithms beside the model, and the choice of policies and steps that makes them hard. */
import type { AlgorithmName, Charge, Decision, Mode, Policy, RateText } from "sluice";
import {
  type Algorithm,
  algorithms,
  type Bucket,
  type Cells,
  type CompiledPolicy,
  compilePolicy,
  decide,
  fits,
  peek,
  refund,
  take,
  usage,
} from "sluice/algorithms";
import { bucketRule, createModel, type Figures, type Rule, windowRule } from "./model.ts";

/** One policy twice: as the library reads it and in the model's exact numbers. */
export interface Sample {
  readonly policy: Policy;
  readonly compiled: CompiledPolicy;
  readonly rule: Rule;
}

/** What a walk has been through, so that a test can tell that it was no idle one. */
export interface Tally {
  steps: number;
  allowed: number;
  denied: number;
  neverFits: number;
  refunds: number;
  refundsOfGrants: number;
  backward: number;
  heals: number;
  policyChanges: number;
  honestRetries: number;
}

/** Gives numbers from 0 up to 1. */
export type Random = () => number;

/** Numbers that look random and come again with the same seed (mulberry32). */
export function seededRandom(seed: number): Random {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A whole number from 0 to below `end`, which may be larger than 2^32. */
export function whole(random: Random, end: number): number {
  return Math.min(end - 1, Math.floor((random() + random() / 2 ** 32) * end));
}

export function oneOf<T>(random: Random, list: readonly T[]): T {
  return list[Math.floor(random() * list.length)] as T;
}

const MOST = Number.MAX_SAFE_INTEGER;
const LARGEST_COST = 2 ** 31 - 1;
/** Above this a limit is scaled no further. */
const LARGEST_LIMIT = 1_000_000;
const END_OF_TIME = 2 ** 52;
const SECOND = 1000;
const HOUR = 3_600_000;
const DAY = 86_400_000;

/** Capacity, rate as a user writes it, and the same rate as tokens in so many ms. */
const BUCKETS: readonly (readonly [number, number | RateText, bigint, bigint])[] = [
  [10, 10, 1n, 100n],
  [10, 5, 1n, 200n],
  [2, 10, 1n, 100n],
  [1, 1, 1n, 1000n],
  [1, 1000, 1n, 1n],
  [3, "3/h", 3n, 3_600_000n],
  [3, 3 / 3600, 1n, 1_200_000n],
  [5, 0.1, 1n, 10_000n],
  [7, 1 / 1200, 1n, 1_200_000n],
  [1, "1/30d", 1n, 2_592_000_000n],
  [40, "1/30d", 1n, 2_592_000_000n],
  [100, 12345.67, 1_234_567n, 100_000n],
  [13, 12345.67, 1_234_567n, 100_000n],
  [1000, 1e6, 1000n, 1n],
  [50_000, 1e6, 1000n, 1n],
  [50, "100/15m", 100n, 900_000n],
  [150, "1000/7ms", 1000n, 7n],
  [20, "7/3s", 7n, 3000n],
  // Rates by which a division through the reciprocal goes wrong (49 x (1/49) < 1).
  [200, "49/ms", 49n, 1n],
  [500, "103/ms", 103n, 1n],
  // The largest numbers that are still exact, in every direction: many parts, long fills, fast rates.
  [LARGEST_COST, "3/4194304ms", 3n, 4_194_304n],
  [9, "5/999999999999999ms", 5n, 999_999_999_999_999n],
  [9, "4294967291/999999999999998ms", 4_294_967_291n, 999_999_999_999_998n],
  [4_194_303, "4294967291/2147483648ms", 4_294_967_291n, 2_147_483_648n],
  [MOST, "4294967291/ms", 4_294_967_291n, 1n],
  [MOST, 2000, 2n, 1n],
  [2 ** 52, 1000, 1n, 1n],
];

/** Limit and window. */
const WINDOWS: readonly (readonly [number, number])[] = [
  [10, SECOND],
  [1, 1],
  [1, SECOND],
  [2, 2],
  [3, 7],
  [5, 1],
  [100, 60_000],
  [4, 50],
  [7, HOUR],
  [30, 30 * DAY],
  [1000, 100],
  [13, 9973],
];

const LARGE_WINDOWS: readonly (readonly [number, number])[] = [
  [LARGEST_COST, 2 ** 21],
  [2 ** 26 - 1, 2 ** 26],
  [2, 2 ** 51 - 1],
  [1, 2 ** 51],
  [2 ** 52 - 1, 1],
  [1_499_999, 3_002_401_753],
];

const LARGE_LOGS: readonly (readonly [number, number])[] = [
  [10_000, 5000 * DAY],
  [10_000, 60_000],
  [2, 2 ** 51 - 1],
  [1, 2 ** 51],
];

/** The policies of the list, small and large. */
function samplesOf(algorithm: AlgorithmName): Sample[] {
  if (algorithm === "token-bucket" || algorithm === "leaky-bucket") {
    return BUCKETS.map(([capacity, rate, tokens, everyMs]) => bucketSample(algorithm, capacity, rate, tokens, everyMs));
  }
  const large = algorithm === "sliding-log" ? LARGE_LOGS : LARGE_WINDOWS;
  return [...WINDOWS, ...large].map(([limit, windowMs]) => windowSample(algorithm, limit, windowMs));
}

/** A policy that nobody thought of. */
export function randomSample(algorithm: AlgorithmName, random: Random): Sample {
  const limit = 1 + whole(random, oneOf(random, [3, 12, 60]));
  if (algorithm === "token-bucket" || algorithm === "leaky-bucket") {
    const count = 1 + whole(random, oneOf(random, [3, 30, 3000]));
    const everyMs = 1 + whole(random, oneOf(random, [20, 2000, HOUR]));
    const capacity = Math.max(limit, Math.ceil(count / everyMs));
    return bucketSample(algorithm, capacity, `${count}/${everyMs}ms`, BigInt(count), BigInt(everyMs));
  }
  return windowSample(algorithm, limit, 1 + whole(random, oneOf(random, [5, 300, 20_000])));
}

/** A plan that may share buckets with another: the same window or fill time, and another limit. */
function anotherPlan(sample: Sample, random: Random): Sample {
  const { compiled, rule } = sample;
  const { algorithm, limit, windowMs } = compiled;
  const factors = [1, ...[2, 3, 7, 10, 97, 1000].filter((factor) => limit * factor <= LARGEST_LIMIT)];
  const scaled = Math.max(1, Math.floor((limit * oneOf(random, factors)) / oneOf(random, [1, 2, 3, 10, 50])));
  if (algorithm === "token-bucket" || algorithm === "leaky-bucket") {
    // The fill time stays limit x q / p ms: the rate grows with the capacity.
    const [tokens, everyMs] = [BigInt(scaled) * rule.p, BigInt(limit) * rule.q];
    const plan = bucketRule(algorithm, BigInt(scaled), tokens, everyMs);
    const isExact = plan.p <= 2n ** 32n && plan.q * BigInt(scaled) <= BigInt(MOST) && plan.p <= BigInt(scaled) * plan.q;
    if (!isExact || plan.q >= 10n ** 15n) return sample;
    return bucketSample(algorithm, scaled, `${Number(plan.p)}/${Number(plan.q)}ms`, plan.p, plan.q);
  }
  const largest = algorithm === "sliding-log" ? 10_000 : Math.floor(MOST / windowMs / 2);
  return windowSample(algorithm, Math.min(scaled, largest), windowMs);
}

export function bucketSample(
  algorithm: "token-bucket" | "leaky-bucket",
  capacity: number,
  rate: number | RateText,
  tokens: bigint,
  everyMs: bigint,
): Sample {
  const policy: Policy =
    algorithm === "token-bucket"
      ? { algorithm, capacity, tokensPerSecond: rate }
      : { algorithm, capacity, leaksPerSecond: rate };
  return { policy, compiled: compilePolicy(policy), rule: bucketRule(algorithm, BigInt(capacity), tokens, everyMs) };
}

export function windowSample(
  algorithm: "fixed-window" | "sliding-window" | "sliding-log",
  limit: number,
  windowMs: number,
): Sample {
  const policy: Policy = { algorithm, limit, windowMs };
  return { policy, compiled: compilePolicy(policy), rule: windowRule(algorithm, BigInt(limit), BigInt(windowMs)) };
}

/** One key by `decide` alone, for schedules that need no model. */
export function createKey(compiled: CompiledPolicy) {
  let state: readonly number[] | undefined;
  const charge =
    (mode: Mode) =>
    (cost: number, now: number, under: CompiledPolicy = compiled): Decision => {
      const outcome = decide(state, { policy: under, key: "key", cost, mode }, now);
      state = outcome.state;
      return outcome.decision;
    };
  return { take: charge("take"), peek: charge("peek"), refund: charge("refund") };
}

/** Where a bucket's cells begin in a walk: not at 0, so that code which forgets the offset is found out. */
const OFFSET = 3;
/** Stands in every cell that is not the bucket's own. */
const NOT_YOURS = -7;

/** The cells of a key that was never seen, with neighbours on both sides. */
function untouchedCells({ width, list }: Algorithm): Cells {
  const size = OFFSET + width + 2;
  if (list) return Array.from({ length: size }, (_, i) => (i === OFFSET ? [] : [NOT_YOURS]));
  return new Float64Array(size).fill(NOT_YOURS).fill(0, OFFSET, OFFSET + width);
}

/** The numbers of the bucket alone, as `decide` takes them. */
function ownCells(cells: Cells, { width, list }: Algorithm): number[] {
  return list ? [...(cells[OFFSET] as number[])] : ([...cells.slice(OFFSET, OFFSET + width)] as number[]);
}

function copyOf(cells: Cells): Cells {
  return cells instanceof Float64Array ? cells.slice() : (cells as number[][]).map((list) => [...list]);
}

function isNeighbour(cell: number | number[]): boolean {
  return typeof cell === "number" ? cell === NOT_YOURS : cell.length === 1 && cell[0] === NOT_YOURS;
}

interface Step {
  mode: Mode;
  cost: number;
  now: number;
  sample: Sample;
  /** Of a refund: when the grant ends that it is of. */
  grantEndsAt?: number | undefined;
}

/**
 * Walks an algorithm and its model for so many steps, in stretches with a key and a clock of their own, and
 * throws at the first difference with all that is needed to see it again.
 */
export function walk(algorithmName: AlgorithmName, steps: number, seed: number): Tally {
  const random = seededRandom(seed);
  const listed = samplesOf(algorithmName);
  const tally: Tally = {
    steps: 0,
    allowed: 0,
    denied: 0,
    neverFits: 0,
    refunds: 0,
    refundsOfGrants: 0,
    backward: 0,
    heals: 0,
    policyChanges: 0,
    honestRetries: 0,
  };
  const someSample = () => (random() < 0.6 ? oneOf(random, listed) : randomSample(algorithmName, random));
  while (tally.steps < steps) {
    const pair = createPair(algorithmName);
    const changesPolicy = random() < 0.4;
    let sample = someSample();
    let now = oneOf(random, [0, whole(random, 100_000), 1.8e12 + whole(random, 1e9), 2 ** 51 + whole(random, 1e9)]);
    const stretch = Math.min(steps - tally.steps, 40 + whole(random, 400));
    const last: Step[] = [];
    const grantEnds: number[] = [];
    let seen: Decision | undefined;
    for (let i = 0; i < stretch; i++) {
      if (changesPolicy && random() < 0.1) {
        sample = anotherPlan(sample, random);
        tally.policyChanges++;
      }
      const then = nextInstant(random, now, sample.compiled, seen);
      if (then < now) tally.backward++;
      now = then;
      const step: Step = { mode: nextMode(random), cost: nextCost(random, sample.compiled, seen), now, sample };
      if (step.mode === "refund" && grantEnds.length > 0 && random() < 0.7) {
        step.grantEndsAt = oneOf(random, grantEnds);
        tally.refundsOfGrants++;
      }
      last.push(step);
      if (last.length > 8) last.shift();
      try {
        seen = pair.step(step, random, tally);
      } catch (error) {
        throw new Error(failure(error as Error, algorithmName, seed, tally.steps, last));
      }
      if (step.mode === "take" && seen.allowed && step.cost > 0) {
        grantEnds.push(now + seen.resetAfterMs);
        if (grantEnds.length > 6) grantEnds.shift();
      }
      tally.steps++;
    }
  }
  return tally;
}

function failure(error: Error, algorithm: AlgorithmName, seed: number, step: number, last: readonly Step[]): string {
  const lines = last.map(
    ({ mode, cost, now, sample, grantEndsAt }) =>
      `  ${mode} ${cost}${grantEndsAt ? ` until ${grantEndsAt}` : ""} at ${now} under ${JSON.stringify(sample.policy)}`,
  );
  return `${algorithm}: ${error.message}\nSLUICE_SEED=${seed} step ${step}; the last steps of this key:\n${lines.join("\n")}`;
}

/** One key twice: in the cells of the algorithm and in the model. */
function createPair(name: AlgorithmName) {
  const algorithm = algorithms[name];
  const model = createModel(name);
  const cells = untouchedCells(algorithm);

  return {
    /** Makes one step in both and compares all that can be seen of it. */
    step(step: Step, random: Random, tally: Tally): Decision {
      const { mode, cost, now, sample, grantEndsAt } = step;
      const { compiled, rule } = sample;
      const known = model.isKnown();
      const before = ownCells(cells, algorithm);
      const wasFuture = model.liesInFuture(rule, now);

      const expected = model.step(mode, rule, cost, now, grantEndsAt);
      const charge: Charge = { policy: compiled, key: "key", cost, mode, grantEndsAt };
      const outcome = decide(known ? before : undefined, charge, now);
      const bucket: Bucket = { algorithm, cells, at: OFFSET, policy: compiled };
      const wouldFit = fits(bucket, cost, now);
      if (mode === "refund") refund(bucket, cost, now, grantEndsAt);
      const decision =
        mode === "take"
          ? take(algorithm, cells, OFFSET, compiled, cost, now)
          : peek(bucket, mode === "peek" ? cost : 0, now);

      compare("in place", decision, expected, compiled);
      compare("decide", outcome.decision, expected, compiled);
      same("ttlMs of decide", outcome.ttlMs, Math.max(1, expected.resetAfterMs));
      const after = ownCells(cells, algorithm);
      sameList("the state of decide and the cells", stored(outcome.state), stored(after));
      const changed = !equalLists(before, after);
      same("changed of decide", outcome.changed, changed);
      if (mode !== "refund") same("fits", wouldFit, expected.allowed);
      const inUse = usage(bucket, now);
      same("usage above 0", inUse > 0, expected.resetAfterMs > 0);
      same("usage of at most 1", inUse <= 1, true);

      const takesNothing = mode === "peek" || (mode === "take" && (cost === 0 || cost > compiled.limit));
      const healed = mode === "take" && !expected.allowed && !takesNothing && wasFuture;
      if (takesNothing || !expected.allowed) same("whether the state was written", changed, healed);
      for (let i = 0; i < cells.length; i++) {
        if (i < OFFSET || i >= OFFSET + algorithm.width) same("neighbour left alone", isNeighbour(cells[i] ?? 0), true);
      }

      if (!model.liesInFuture(rule, now)) checkWaits(decision, compiled, cost, now, tally);
      if (random() < 0.1) checkStepBack(compiled, now, 1 + whole(random, oneOf(random, [100, HOUR, 40 * DAY])));

      if (expected.allowed) tally.allowed++;
      else tally.denied++;
      if (expected.retryAfterMs === null) tally.neverFits++;
      if (mode === "refund") tally.refunds++;
      if (healed) tally.heals++;
      return decision;
    },
  };

  /** Waits mean what they say: at the end of each something is so that was not a millisecond before. */
  function checkWaits(decision: Decision, compiled: CompiledPolicy, cost: number, now: number, tally: Tally): void {
    const { remaining, nextAfterMs, resetAfterMs, retryAfterMs } = decision;
    const look = (at: number) => peek({ algorithm, cells, at: OFFSET, policy: compiled }, 0, at);
    if (nextAfterMs > 0) {
      same("remaining grows after nextAfterMs", look(now + nextAfterMs).remaining > remaining, true);
      same("remaining 1 ms before nextAfterMs", look(now + nextAfterMs - 1).remaining, remaining);
    }
    if (resetAfterMs > 0) {
      same("full after resetAfterMs", look(now + resetAfterMs).resetAfterMs, 0);
      same("remaining after resetAfterMs", look(now + resetAfterMs).remaining, compiled.limit);
      same("not full 1 ms before resetAfterMs", look(now + resetAfterMs - 1).resetAfterMs, 1);
    }
    if (typeof retryAfterMs === "number") {
      same("retryAfterMs of at least 1", retryAfterMs >= 1, true);
      const tryAt = (at: number) => take(algorithm, copyOf(cells), OFFSET, compiled, cost, at).allowed;
      same("admitted after retryAfterMs", tryAt(now + retryAfterMs), true);
      same("admitted 1 ms before retryAfterMs", tryAt(now + retryAfterMs - 1), false);
      tally.honestRetries++;
    }
  }

  /** A clock that steps back gives nothing, and holds nothing for longer than it takes to fill. */
  function checkStepBack(compiled: CompiledPolicy, now: number, by: number): void {
    const earlier = Math.max(0, now - by);
    const look = (at: number) => peek({ algorithm, cells, at: OFFSET, policy: compiled }, 0, at);
    same("nothing gained by a step back", look(earlier).remaining <= look(now).remaining, true);
    const longest = name === "sliding-window" ? 2 * compiled.windowMs : compiled.windowMs;
    same("full again in time after a step back", look(earlier).resetAfterMs <= longest, true);
  }
}

/** A state as a store keeps it: an untouched bucket is not stored. */
function stored(state: readonly number[]): readonly number[] {
  return state.every((cell) => cell === 0) ? [] : state;
}

function nextMode(random: Random): Mode {
  const roll = random();
  return roll < 0.8 ? "take" : roll < 0.92 ? "peek" : "refund";
}

function nextCost(random: Random, { limit, unitsPerMs }: CompiledPolicy, seen: Decision | undefined): number {
  const roll = random();
  const remaining = seen?.remaining ?? limit;
  let cost = 1;
  if (roll < 0.06) cost = 0;
  else if (roll < 0.2) cost = 2 + whole(random, 4);
  else if (roll < 0.28) cost = limit;
  else if (roll < 0.31) cost = limit + 1;
  else if (roll < 0.41) cost = remaining;
  else if (roll < 0.47) cost = remaining + 1;
  else if (roll < 0.56) cost = 1 + whole(random, limit);
  // So many tokens come back in whole milliseconds, with no rest.
  else if (roll < 0.6 && unitsPerMs <= limit) cost = unitsPerMs;
  else if (roll < 0.62) cost = LARGEST_COST;
  return Math.min(cost, LARGEST_COST);
}

const POLLS = [50, 70, 99];
/** Steps of the clock itself, both ways: jitter, a bad sync, a wrong hour, a wrong day. */
const STEPS = [5, 200, 30_000, HOUR, 5 * HOUR, DAY, 40 * DAY];

function nextInstant(
  random: Random,
  now: number,
  { windowMs, limit }: CompiledPolicy,
  seen: Decision | undefined,
): number {
  const roll = random();
  let by: number;
  if (roll < 0.2) by = 0;
  else if (roll < 0.26) by = 1;
  else if (roll < 0.38) by = oneOf(random, POLLS);
  else if (roll < 0.5) by = whole(random, Math.ceil((3 * windowMs) / limit) + 1);
  else if (roll < 0.58) by = whole(random, windowMs + 1);
  // To the very instant that was promised, and to its neighbours.
  else if (roll < 0.76 && seen) {
    by = oneOf(random, [seen.nextAfterMs, seen.resetAfterMs, seen.retryAfterMs ?? 0]) + oneOf(random, [-1, 0, 0, 1]);
  }
  // To the edge of a window of the clock.
  else if (roll < 0.84) by = windowMs - (now % windowMs) + oneOf(random, [-1, 0, 0, 1, windowMs]);
  else if (roll < 0.88) by = whole(random, 10) * windowMs;
  else if (roll < 0.94) by = 1 + whole(random, oneOf(random, STEPS));
  else if (roll < 0.97) by = -1 - whole(random, oneOf(random, STEPS));
  else by = -whole(random, 3 * windowMs);
  return Math.min(END_OF_TIME, Math.max(0, now + by));
}

function compare(where: string, actual: Decision, expected: Figures, compiled: CompiledPolicy): void {
  // A decision has these members and no others, so that an allowed one has no retryAfterMs at all.
  const members = expected.delayMs === undefined && expected.allowed ? 6 : 7;
  if (
    actual.allowed === expected.allowed &&
    actual.policy === compiled.name &&
    Object.is(actual.limit, expected.limit) &&
    Object.is(actual.remaining, expected.remaining) &&
    Object.is(actual.resetAfterMs, expected.resetAfterMs) &&
    Object.is(actual.nextAfterMs, expected.nextAfterMs) &&
    Object.is(actual.retryAfterMs, expected.retryAfterMs) &&
    Object.is(actual.delayMs, expected.delayMs) &&
    Object.hasOwn(actual, "retryAfterMs") === !expected.allowed &&
    Object.hasOwn(actual, "delayMs") === (expected.delayMs !== undefined) &&
    Object.keys(actual).length === members
  ) {
    return;
  }
  const wanted = { ...expected, policy: compiled.name };
  throw new Error(`${where}: expected ${JSON.stringify(wanted)}, received ${JSON.stringify(actual)}`);
}

function same(what: string, actual: number | boolean, expected: number | boolean): void {
  if (actual !== expected) throw new Error(`${what}: expected ${expected}, received ${actual}`);
}

function sameList(what: string, actual: readonly number[], expected: readonly number[]): void {
  if (!equalLists(actual, expected))
    throw new Error(`${what}: ${JSON.stringify(actual)} and ${JSON.stringify(expected)}`);
}

function equalLists(a: readonly number[], b: readonly number[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (!Object.is(a[i], b[i])) return false;
  return true;
}
