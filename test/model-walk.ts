/** Random walks: the same random steps on an algorithm and on the model, compared after each step. */
import type { Charge, Decision, Mode } from "sluice";
import {
  type Algorithm,
  algorithms,
  type Bucket,
  type Cells,
  type CompiledPolicy,
  decide,
  fits,
  type PlainState,
  peek,
  refund,
  take,
  usage,
} from "sluice/algorithms";
import type { RateAlgorithm } from "../src/testing/subject.ts";
import { createModel, type DecisionNumbers } from "./model.ts";
import {
  anotherPlan,
  DAY,
  HOUR,
  MAX_COST,
  oneOf,
  type Random,
  randomSample,
  type Sample,
  samplesOf,
  seededRandom,
  whole,
} from "./model-samples.ts";

/** Counts of the kinds of steps in a walk: a test checks that each kind occurred. */
export interface Tally {
  steps: number;
  allowed: number;
  denied: number;
  neverFits: number;
  refunds: number;
  refundsOfGrants: number;
  backward: number;
  clamped: number;
  policyChanges: number;
  checkedRetries: number;
}

const MAX_TIME = 2 ** 52;

/** Offset of a bucket's cells. Not 0, to find code that ignores the offset. */
const OFFSET = 3;
/** The value of every cell outside of the bucket. */
const FOREIGN_CELL = -7;

/** The cells of a new key, with foreign cells on both sides. */
function newCells({ width, list }: Algorithm): Cells {
  const size = OFFSET + width + 2;
  if (list) return Array.from({ length: size }, (_, i) => (i === OFFSET ? [] : [FOREIGN_CELL]));
  return new Float64Array(size).fill(FOREIGN_CELL).fill(0, OFFSET, OFFSET + width);
}

/** The cells of the bucket, as the state for `decide`. */
function ownCells(cells: Cells, { width, list }: Algorithm): number[] {
  return list ? [...(cells[OFFSET] as number[])] : ([...cells.slice(OFFSET, OFFSET + width)] as number[]);
}

function copyOf(cells: Cells): Cells {
  return cells instanceof Float64Array ? cells.slice() : (cells as number[][]).map((list) => [...list]);
}

function isForeignCell(cell: number | number[]): boolean {
  return typeof cell === "number" ? cell === FOREIGN_CELL : cell.length === 1 && cell[0] === FOREIGN_CELL;
}

interface Step {
  mode: Mode;
  cost: number;
  now: number;
  sample: Sample;
  /** For a refund: the end of the refunded grant. */
  grantEndsAt?: number | undefined;
}

/**
 * Runs `steps` random steps, in stretches with their own key and clock. Throws at the first difference, with the seed and
 * the last steps.
 */
export function walk(algorithmName: RateAlgorithm, steps: number, seed: number): Tally {
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
    clamped: 0,
    policyChanges: 0,
    checkedRetries: 0,
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

function failure(error: Error, algorithm: RateAlgorithm, seed: number, step: number, last: readonly Step[]): string {
  const lines = last.map(
    ({ mode, cost, now, sample, grantEndsAt }) =>
      `  ${mode} ${cost}${grantEndsAt ? ` until ${grantEndsAt}` : ""} at ${now} under ${JSON.stringify(sample.policy)}`,
  );
  return `${algorithm}: ${error.message}\nSLUICE_SEED=${seed} step ${step}; the last steps of this key:\n${lines.join("\n")}`;
}

/** A key in the cells of an algorithm and in the model. */
function createPair(name: RateAlgorithm) {
  const algorithm = algorithms[name];
  const model = createModel(name);
  const cells = newCells(algorithm);

  return {
    /** Makes one step in both and compares decision, state and writes. */
    step(step: Step, random: Random, tally: Tally): Decision {
      const { mode, cost, now, sample, grantEndsAt } = step;
      const { compiled, rule } = sample;
      const isStored = model.isStored();
      const before = ownCells(cells, algorithm);
      const wasInFuture = model.isInFuture(rule, now);

      const expected = model.step(mode, rule, cost, now, grantEndsAt);
      const charge: Charge = { policy: compiled, key: "key", cost, mode, grantEndsAt };
      const outcome = decide(isStored ? before : undefined, charge, now);
      const bucket: Bucket = { algorithm, cells, at: OFFSET, policy: compiled };
      const wouldFit = fits(bucket, cost, now);
      if (mode === "refund") refund(bucket, cost, now, grantEndsAt);
      const decision =
        mode === "take"
          ? take(algorithm, cells, OFFSET, compiled, cost, now)
          : peek(bucket, mode === "peek" ? cost : 0, now);

      compare("in place", decision, expected, compiled);
      compare("decide", outcome.decision, expected, compiled);
      checkEqual("ttlMs of decide", outcome.ttlMs, Math.max(1, expected.resetAfterMs));
      const after = ownCells(cells, algorithm);
      checkEqualLists("the state of decide and the cells", stored(outcome.state as PlainState), stored(after));
      const changed = !equalLists(before, after);
      checkEqual("changed of decide", outcome.changed, changed);
      if (mode !== "refund") checkEqual("fits", wouldFit, expected.allowed);
      const inUse = usage(bucket, now);
      checkEqual("usage above 0", inUse > 0, expected.resetAfterMs > 0);
      checkEqual("usage of at most 1", inUse <= 1, true);

      const takesNothing = mode === "peek" || (mode === "take" && (cost === 0 || cost > compiled.limit));
      const clamped = mode === "take" && !expected.allowed && !takesNothing && wasInFuture;
      if (takesNothing || !expected.allowed) checkEqual("whether the state was written", changed, clamped);
      for (let i = 0; i < cells.length; i++) {
        if (i < OFFSET || i >= OFFSET + algorithm.width)
          checkEqual("foreign cell unchanged", isForeignCell(cells[i] ?? 0), true);
      }

      if (!model.isInFuture(rule, now)) checkWaits(decision, compiled, cost, now, tally);
      if (random() < 0.1) checkStepBack(compiled, now, 1 + whole(random, oneOf(random, [100, HOUR, 40 * DAY])));

      if (expected.allowed) tally.allowed++;
      else tally.denied++;
      if (expected.retryAfterMs === null) tally.neverFits++;
      if (mode === "refund") tally.refunds++;
      if (clamped) tally.clamped++;
      return decision;
    },
  };

  /** Checks each wait of a decision: its promise holds at the end, and not 1 ms earlier. */
  function checkWaits(decision: Decision, compiled: CompiledPolicy, cost: number, now: number, tally: Tally): void {
    const { remaining, nextAfterMs, resetAfterMs, retryAfterMs } = decision;
    const peekAt = (at: number) => peek({ algorithm, cells, at: OFFSET, policy: compiled }, 0, at);
    if (nextAfterMs > 0) {
      checkEqual("remaining grows after nextAfterMs", peekAt(now + nextAfterMs).remaining > remaining, true);
      checkEqual("remaining 1 ms before nextAfterMs", peekAt(now + nextAfterMs - 1).remaining, remaining);
    }
    if (resetAfterMs > 0) {
      checkEqual("full after resetAfterMs", peekAt(now + resetAfterMs).resetAfterMs, 0);
      checkEqual("remaining after resetAfterMs", peekAt(now + resetAfterMs).remaining, compiled.limit);
      checkEqual("not full 1 ms before resetAfterMs", peekAt(now + resetAfterMs - 1).resetAfterMs, 1);
    }
    if (typeof retryAfterMs === "number") {
      checkEqual("retryAfterMs of at least 1", retryAfterMs >= 1, true);
      const tryAt = (at: number) => take(algorithm, copyOf(cells), OFFSET, compiled, cost, at).allowed;
      checkEqual("admitted after retryAfterMs", tryAt(now + retryAfterMs), true);
      checkEqual("admitted 1 ms before retryAfterMs", tryAt(now + retryAfterMs - 1), false);
      tally.checkedRetries++;
    }
  }

  /** Checks that a clock step back frees nothing, and that the bucket is full within its fill time. */
  function checkStepBack(compiled: CompiledPolicy, now: number, by: number): void {
    const earlier = Math.max(0, now - by);
    const peekAt = (at: number) => peek({ algorithm, cells, at: OFFSET, policy: compiled }, 0, at);
    checkEqual("remaining after a step back", peekAt(earlier).remaining <= peekAt(now).remaining, true);
    const maxMs = name === "sliding-window" ? 2 * compiled.windowMs : compiled.windowMs;
    checkEqual("full within the fill time after a step back", peekAt(earlier).resetAfterMs <= maxMs, true);
  }
}

/** The state as a store keeps it: a full bucket is not stored. */
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
  // This many tokens refill in a whole number of milliseconds.
  else if (roll < 0.6 && unitsPerMs <= limit) cost = unitsPerMs;
  else if (roll < 0.62) cost = MAX_COST;
  return Math.min(cost, MAX_COST);
}

const POLLS = [50, 70, 99];
/** Clock steps in ms: jitter, a bad sync, a wrong hour, a wrong day. */
const CLOCK_STEPS = [5, 200, 30_000, HOUR, 5 * HOUR, DAY, 40 * DAY];

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
  // To the instant of a promised wait, and 1 ms before or after it.
  else if (roll < 0.76 && seen) {
    by = oneOf(random, [seen.nextAfterMs, seen.resetAfterMs, seen.retryAfterMs ?? 0]) + oneOf(random, [-1, 0, 0, 1]);
  }
  // To the boundary of a clock window.
  else if (roll < 0.84) by = windowMs - (now % windowMs) + oneOf(random, [-1, 0, 0, 1, windowMs]);
  else if (roll < 0.88) by = whole(random, 10) * windowMs;
  else if (roll < 0.94) by = 1 + whole(random, oneOf(random, CLOCK_STEPS));
  else if (roll < 0.97) by = -1 - whole(random, oneOf(random, CLOCK_STEPS));
  else by = -whole(random, 3 * windowMs);
  return Math.min(MAX_TIME, Math.max(0, now + by));
}

function compare(where: string, actual: Decision, expected: DecisionNumbers, compiled: CompiledPolicy): void {
  // A decision has no other members: an allowed one has no retryAfterMs.
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
  const expectedDecision = { ...expected, policy: compiled.name };
  throw new Error(`${where}: expected ${JSON.stringify(expectedDecision)}, received ${JSON.stringify(actual)}`);
}

function checkEqual(subject: string, actual: number | boolean, expected: number | boolean): void {
  if (actual !== expected) throw new Error(`${subject}: expected ${expected}, received ${actual}`);
}

function checkEqualLists(subject: string, actual: readonly number[], expected: readonly number[]): void {
  if (!equalLists(actual, expected))
    throw new Error(`${subject}: ${JSON.stringify(actual)} and ${JSON.stringify(expected)}`);
}

function equalLists(a: readonly number[], b: readonly number[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (!Object.is(a[i], b[i])) return false;
  return true;
}
