/** Random walks over one key with holds: the same steps on the engine and on the model, compared after each step. */
import type { Charge, CompiledPolicy, Decision, Mode } from "sluice";
import type { decide, HeldState, State } from "sluice/algorithms";
import { type Random, randomFrom } from "../../src/testing/random.ts";
import type { Rule } from "../algorithm-models.ts";
import { HeldModel } from "./held-model.ts";
import { type HeldAlgorithm, heldSample, nextCost, nextInstant, promisedWaits } from "./held-samples.ts";

/** The code under test. A mutant has another one. */
export interface Engine {
  readonly decide: typeof decide;
  readonly maxHolds: number;
}

/** How often each kind of step occurred: a test checks that all did. */
export class Tally extends Map<string, number> {
  count(kind: string, by = 1): void {
    this.set(kind, (this.get(kind) ?? 0) + by);
  }
}

const IDS = ["a", "b", "c", "d", "e", "f"];
const MODES: readonly Mode[] = [
  ...(["take", "take", "take", "hold", "hold", "hold", "hold", "settle", "settle", "settle"] as const),
  ...(["peek", "refund"] as const),
];
const DAY = 86_400_000;

/** Runs random steps, in stretches with their own key and clock. Throws at the first difference, with the last steps. */
export function walkHeld(engine: Engine, name: HeldAlgorithm, steps: number, seed: number): Tally {
  const random = randomFrom(seed);
  const tally = new Tally();
  for (let done = 0; done < steps; ) {
    const changesPlan = random.whole(1, 4) === 1;
    let sample = heldSample(name, random);
    let pair: Pair = { model: new HeldModel(name, engine.maxHolds), state: undefined };
    let now = random.pick([0, random.whole(0, 100_000), 1.8e12 + random.whole(0, 1e9)]);
    let decision: Decision | undefined;
    const last: string[] = [];
    const grantEnds: number[] = [];
    for (let i = random.whole(20, 120); i > 0 && done < steps; i--, done++) {
      if (changesPlan && random.whole(1, 20) === 1) {
        sample = sample.another();
        tally.count("plan changes");
      }
      const { compiled, rule } = sample;
      const ends = pair.model.holds.map(({ end }) => end);
      const waits = decision ? promisedWaits(decision, ends, now) : [];
      const then = nextInstant(random, now, waits, Math.min(compiled.windowMs, 1e13));
      if (then < now) tally.count("backward steps");
      now = then;
      const charge = nextCharge(random, compiled, pair.model, decision?.remaining ?? compiled.limit, grantEnds);
      last.push(
        `${describe(charge)} at ${now} under ${compiled.resolved.name} (${compiled.limit} in ${compiled.windowMs})`,
      );
      if (last.length > 12) last.shift();
      try {
        if (random.whole(1, 60) === 1) pair = reset(engine, pair, { ...charge, mode: "reset" }, name, now);
        const result = step(engine, pair, charge, rule, now, tally);
        ({ pair, decision } = result);
        if (charge.mode === "take" && decision.allowed && decision.held === undefined) {
          grantEnds.push(now + decision.resetAfterMs);
          if (grantEnds.length > 4) grantEnds.shift();
        }
      } catch (error) {
        const message = `${name}: ${(error as Error).message}\nSLUICE_SEED=${seed} step ${done}; the last steps of this key:`;
        throw new Error(`${message}\n  ${last.join("\n  ")}`);
      }
    }
  }
  tally.count("steps", steps);
  return tally;
}

/** A key in the engine and in the model. */
interface Pair {
  readonly model: HeldModel;
  readonly state: State | undefined;
}

function nextCharge(
  random: Random,
  policy: CompiledPolicy,
  { holds }: HeldModel,
  remaining: number,
  grantEnds: readonly number[],
): Charge {
  const mode = random.pick(MODES);
  const cost = nextCost(random, policy, remaining);
  const charge = { policy, key: "key", cost, mode };
  if (mode === "refund" && grantEnds.length > 0 && random.whole(1, 3) === 1) {
    return { ...charge, grantEndsAt: random.pick(grantEnds) };
  }
  if (mode !== "hold" && mode !== "settle") return charge;
  const isKnown = holds.length > 0 && random.whole(1, 100) <= (mode === "settle" ? 85 : 30);
  const id = isKnown ? random.pick(holds).id : random.pick(IDS);
  if (mode === "settle") {
    const actual = random.whole(1, 10) <= 3 ? Math.min(2 * cost, 2 ** 31 - 1) : cost;
    return { ...charge, cost: actual, hold: { id, forMs: 0 } };
  }
  const spanMs = Math.min(policy.windowMs, 1e13);
  const forMs = random.pick([1, 50, Math.floor(spanMs / 3), spanMs, 3 * spanMs, 10 * spanMs]);
  return { ...charge, cost: Math.max(1, cost), hold: { id, forMs: Math.max(1, Math.min(DAY, forMs)) } };
}

function reset(engine: Engine, { state }: Pair, charge: Charge, name: HeldAlgorithm, now: number): Pair {
  const { decision, changed, state: next } = engine.decide(state, charge, now);
  checkEqual(
    "reset",
    [decision.remaining, decision.held ?? 0, changed, JSON.stringify(next)],
    [decision.limit, 0, true, "[]"],
  );
  return { model: new HeldModel(name, engine.maxHolds), state: next };
}

/** Makes one step in both and compares decision, waits and writes. */
function step(
  engine: Engine,
  { model, state }: Pair,
  charge: Charge,
  rule: Rule,
  now: number,
  tally: Tally,
): { pair: Pair; decision: Decision } {
  const { mode, policy } = charge;
  const before = model.viewAt(rule, BigInt(now));
  const view = before.copy();
  const { allowed, changes } = applyToModel(view, charge, rule, model.isHeld);
  const { decision, changed, state: next, ttlMs } = engine.decide(state, charge, now);

  checkEqual("allowed", decision.allowed, allowed);
  checkEqual("remaining", decision.remaining, Number(view.remaining(rule)));
  checkEqual("held", decision.held ?? 0, Number(view.held));
  checkEqual("held is absent if 0", "held" in decision, view.held > 0n);
  checkEqual("limit", decision.limit, policy.limit);
  checkEqual("ttlMs", ttlMs, Math.max(1, decision.resetAfterMs));
  if (mode === "settle") checkEqual("forgiven", decision.forgiven ?? 0, allowed ? Number(view.forgiven) : 0);

  const neverFits = BigInt(charge.cost) > rule.limit;
  const clamps =
    !allowed && !neverFits && (mode === "take" || mode === "hold") && before.wasInFuture && !before.isEmpty(rule);
  // Whether a refund of nothing is written is not a matter of holds.
  if (mode !== "refund" || model.isHeld) checkEqual("whether it was written", changed, changes || clamps);
  if (changed) {
    view.dropUnused(rule);
    checkStored(next, view, state);
    tally.count(allowed ? "writes" : "clamps");
  }
  checkWaits({ decision, charge, rule, now, before, after: view, tally });

  tally.count(`${mode} ${allowed ? "done" : "not done"}`);
  if (!model.isHeld && mode !== "hold" && mode !== "settle") tally.count("steps without holds");
  if (view.debt > 0n) tally.count("in debt");
  if (decision.forgiven) tally.count("forgiven");
  if (model.holds.length >= engine.maxHolds) tally.count("at the maximum of holds");
  return { pair: changed ? { model: view, state: next } : { model, state }, decision };
}

function applyToModel(
  view: HeldModel,
  charge: Charge,
  rule: Rule,
  wasHeld: boolean,
): { allowed: boolean; changes: boolean } {
  const { mode, hold, grantEndsAt, policy } = charge;
  const cost = BigInt(charge.cost);
  const id = hold?.id as string;
  if (mode === "settle") {
    const settled = view.settle(rule, id, cost);
    return { allowed: settled, changes: settled };
  }
  if (mode === "refund") {
    const end = grantEndsAt === undefined ? undefined : BigInt(grantEndsAt);
    // Without holds, a refund of nothing is written as well.
    return { allowed: true, changes: (cost > 0n || !wasHeld) && view.refund(rule, cost, end) };
  }
  if (mode === "hold") {
    const allowed = view.canHold(rule, id, cost);
    if (allowed) view.hold(id, cost, BigInt(hold?.forMs as number));
    return { allowed, changes: allowed };
  }
  const allowed = view.fits(rule, cost);
  const changes = mode === "take" && allowed && cost > 0n && policy.kind !== "concurrency";
  if (changes) view.take(rule, cost);
  return { allowed, changes };
}

/** Compares holds and debt. The base is compared by what is decided from it. */
function checkStored(state: State, model: HeldModel, before: State | undefined): void {
  const { holds, debt, writtenAt } = (
    "holds" in state ? state : { holds: [], writtenAt: Number(model.at) }
  ) as HeldState;
  const text = (id: string, amount: number | bigint, end: number | bigint) => `${end}:${amount}:${id}`;
  checkEqual(
    "stored holds",
    holds.map(({ id, amount, end }) => text(id, amount, end)).sort(),
    model.holds.map(({ id, amount, end }) => text(id, amount, end)).sort(),
  );
  checkEqual(
    "stored debt",
    debt && text("", debt.amount, debt.dueAt),
    model.debt > 0n ? text("", model.debt, model.dueAt) : undefined,
  );
  checkEqual("when it was written", writtenAt, Number(model.at));
  for (let i = 1; i < holds.length; i++) {
    const [a, b] = [holds[i - 1], holds[i]] as [HeldState["holds"][number], HeldState["holds"][number]];
    if (a.end > b.end) throw new Error("the holds are not ordered by end");
  }
  if (before !== undefined && before === state) throw new Error("the state was changed in place");
}

/** Tries every claimed wait in the model: at its instant, and 1 ms before. */
function checkWaits(step: {
  decision: Decision;
  charge: Charge;
  rule: Rule;
  now: number;
  before: HeldModel;
  after: HeldModel;
  tally: Tally;
}): void {
  const { decision, charge, rule, now, before, after, tally } = step;
  const { mode, hold, policy } = charge;
  const cost = BigInt(charge.cost);
  const at = (from: HeldModel, ms: number): HeldModel => {
    const later = from.copy();
    later.advanceTo(rule, BigInt(now) + BigInt(ms));
    return later;
  };
  const checkFirst = (field: string, ms: number, isTrue: (later: HeldModel) => boolean, from = after): void => {
    if (!isTrue(at(from, ms))) throw new Error(`${field}: not true after ${ms} ms`);
    if (ms > 0 && isTrue(at(from, ms - 1))) throw new Error(`${field}: true 1 ms before ${ms} ms`);
    tally.count("waits tried");
  };
  const { resetAfterMs, nextAfterMs, remaining } = decision;
  checkFirst("resetAfterMs", resetAfterMs, (later) => later.isEmpty(rule));
  if (resetAfterMs === 0 || remaining === policy.limit) checkEqual("nextAfterMs", nextAfterMs, 0);
  else checkFirst("nextAfterMs", nextAfterMs, (later) => later.remaining(rule) > BigInt(remaining));
  if (decision.allowed) return;
  if (mode === "settle" || cost > rule.limit) {
    checkEqual("retryAfterMs", decision.retryAfterMs, null);
    return;
  }
  const { retryAfterMs, earliestRetryMs } = decision;
  if (retryAfterMs === null || retryAfterMs < 1) throw new Error(`retryAfterMs of ${retryAfterMs}`);
  const isAdmitted = (later: HeldModel): boolean =>
    mode === "hold" ? later.canHold(rule, hold?.id as string, cost) : later.fits(rule, cost);
  checkFirst("retryAfterMs", retryAfterMs, isAdmitted);
  // Every denial ends: with the last hold, and then with what is in use and owed.
  const lastEndMs = Math.max(0, ...before.holds.map(({ end }) => Number(end) - now));
  const spans = { concurrency: 0, "sliding-window": 4 }[policy.algorithm.name as string] ?? 2;
  if (retryAfterMs > lastEndMs + spans * policy.windowMs)
    throw new Error(`retryAfterMs of ${retryAfterMs} is too long`);
  const cancelled = before.copy();
  cancelled.holds = [];
  const fits = (later: HeldModel): boolean => later.fits(rule, cost);
  if (earliestRetryMs === undefined) {
    if (retryAfterMs > 1 && fits(at(cancelled, retryAfterMs - 1))) throw new Error("earliestRetryMs is missing");
    tally.count("denials");
    return;
  }
  if (earliestRetryMs >= retryAfterMs) throw new Error("earliestRetryMs is not less than retryAfterMs");
  if (earliestRetryMs > 1) checkFirst("earliestRetryMs", earliestRetryMs, fits, cancelled);
  else if (!fits(at(cancelled, 1))) throw new Error("earliestRetryMs: does not fit after 1 ms");
  tally.count("denials because of holds");
}

export function checkEqual(subject: string, actual: unknown, expected: unknown): void {
  const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (a !== b) throw new Error(`${subject}: expected ${b}, received ${a}`);
}

function describe({ mode, cost, hold, grantEndsAt }: Charge): string {
  const suffix = hold ? ` as ${hold.id} for ${hold.forMs}` : grantEndsAt === undefined ? "" : ` until ${grantEndsAt}`;
  return `${mode} ${cost}${suffix}`;
}
