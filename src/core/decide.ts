/** Decisions as values: state in, decision and next state out, nothing changed in place. */

import { optionError } from "../base/errors.ts";
import type { Charge, Group, HoldEngine } from "./charge.ts";
import type { Decision } from "./decision.ts";
import { type Action, MODES, type ModeRules } from "./modes.ts";
import { type DecideResult, isHeldState, type PlainState, type State } from "./state.ts";
import { add, type Bucket, clampToNow, fits, peek, refund, take } from "./step.ts";

/** Returns the state of a charge's bucket, given the charge and its index in the group. */
export type ReadState = (charge: Charge, index: number) => State | undefined;

/**
 * Applies one charge to a state at `now`, in whole milliseconds. `engine` decides on holds, if neither the state nor the
 * charge brings its own: a store that keeps states as data passes it.
 */
export function decide(state: State | undefined, charge: Charge, now: number, engine?: HoldEngine): DecideResult {
  const { mode, cost, policy } = charge;
  const rules = MODES[mode];
  if (!rules || isHeldState(state)) return holdEngineOf(state, charge, engine).decide(state, charge, now);
  if (mode === "take") {
    // Not by fits() and add(): that would compute the use twice.
    return change(state, charge, ({ algorithm, cells }) => take(algorithm, cells, 0, policy, cost, now));
  }
  if (mode === "penalty") return deny(state, charge, now);
  return applyAction(state, charge, rules, rules.apply, now);
}

/**
 * Decides a group of charges, all or nothing. `read` returns the state of a charge's bucket; a group names no bucket
 * twice. Write the state of every result that has changed, in the same atomic step.
 */
export function decideGroup(group: Group, read: ReadState, now: number, engine?: HoldEngine): DecideResult[] {
  const [only] = group;
  if (only && group.length === 1) return [decide(read(only, 0), only, now, engine)];
  const states = group.map(read);
  const fit = group.map((charge, i) => fitsInto(states[i], charge, now, engine));
  if (!fit.includes(false)) return group.map((charge, i) => decide(states[i], charge, now, engine));
  const isViolation = countsAsViolation(group, fit);
  return group.map((charge, i) => {
    const state = states[i];
    const rules = MODES[charge.mode];
    if (!rules || isHeldState(state)) return holdEngineOf(state, charge, engine).deny(state, charge, now, isViolation);
    const { asks, applyIfDenied } = rules;
    if (isViolation && applyIfDenied) return applyAction(state, charge, rules, applyIfDenied, now);
    if (charge.mode === "peek" || !asks) return applyAction(state, charge, rules, undefined, now);
    return deny(state, charge, now);
  });
}

/** The decision on a charge that takes nothing. If it does not fit, it clamps a state dated in the future. */
function deny(state: PlainState | undefined, charge: Charge, now: number): DecideResult {
  return change(state, charge, (bucket) => {
    clampToNow(bucket, charge.cost, now);
    return peek(bucket, charge.cost, now);
  });
}

/**
 * The engine of a charge that the algorithm can't decide alone: that of the state, of the charge, or the given one.
 * Recognised by members and not by class: two copies of the package may run in one process.
 */
export function holdEngineOf(
  state: State | undefined,
  { hold }: Pick<Charge, "hold">,
  given: HoldEngine | undefined,
): HoldEngine {
  const own = isHeldState(state) ? (state as { engine?: HoldEngine }).engine : hold?.engine;
  const engine = own ?? given;
  if (engine) return engine;
  const expected = "one that holdTerms() of sluice/algorithms has made";
  throw optionError("invalid-option", "charge.hold", expected);
}

/** Whether a charge admits its group. */
function fitsInto(state: State | undefined, charge: Charge, now: number, given: HoldEngine | undefined): boolean {
  const rules = MODES[charge.mode];
  if (!rules || isHeldState(state)) return holdEngineOf(state, charge, given).fits(state, charge, now);
  return !rules.asks || fits(view(state, charge), charge.cost, now);
}

/**
 * Whether a denied group is a violation, which charges in mode `penalty` record: some other charge denies although its
 * cost could fit, no penalty does, and the group was not only a look.
 */
export function countsAsViolation(group: Group, fit: readonly boolean[]): boolean {
  let isOnlyLook = true;
  for (const [i, { mode, cost, policy }] of group.entries()) {
    const rules = MODES[mode];
    if (!rules || rules.apply) isOnlyLook = false;
    if (fit[i]) continue;
    if (rules?.applyIfDenied || policy.kind === "penalty" || cost > policy.limit) return false;
  }
  return !isOnlyLook;
}

/** Applies an action, or none, and returns the decision with the numbers after it. */
function applyAction(
  state: PlainState | undefined,
  charge: Charge,
  { asks }: ModeRules,
  action: Action | undefined,
  now: number,
): DecideResult {
  const { cost, grantEndsAt } = charge;
  const asked = asks ? cost : 0;
  if (action === undefined) return unchanged(state, peek(view(state, charge), asked, now));
  if (action === "clear") return cleared(charge, now);
  return change(state, charge, (bucket) => {
    if (action === "add" && cost > 0) add(bucket, cost, now);
    if (action === "subtract") refund(bucket, cost, now, grantEndsAt);
    return peek(bucket, asked, now);
  });
}

/** A decision that leaves the state as it is. */
export function unchanged(state: State | undefined, decision: Decision): DecideResult {
  return { decision, state: state ?? [], changed: false, ttlMs: Math.max(1, decision.resetAfterMs) };
}

/** Always written: a store may still have a value that it no longer reads, such as one whose time to live has ended. */
function cleared(charge: Charge, now: number): DecideResult {
  return { decision: peek(view(undefined, charge), 0, now), state: [], changed: true, ttlMs: 1 };
}

/** Runs a step on a copy of the state. */
export function change(
  before: PlainState | undefined,
  charge: Charge,
  step: (bucket: Bucket) => Decision,
): DecideResult {
  const { policy } = charge;
  const { algorithm } = policy;
  const state = before?.length ? [...before] : untouched(charge);
  const decision = step({ algorithm, cells: algorithm.list ? [state] : state, at: 0, policy });
  const isEmpty = state.every((cell) => cell === 0);
  const changed = isEmpty
    ? (before?.some((cell) => cell !== 0) ?? false)
    : state.length !== before?.length || state.some((cell, i) => cell !== before[i]);
  return { decision, state: isEmpty ? [] : state, changed, ttlMs: Math.max(1, decision.resetAfterMs) };
}

/** A bucket for steps that only read. */
export function view(state: PlainState | undefined, charge: Charge): Bucket {
  const { policy } = charge;
  const { algorithm } = policy;
  const cells = (state?.length ? state : untouched(charge)) as number[];
  return { algorithm, cells: algorithm.list ? [cells] : cells, at: 0, policy };
}

function untouched({ policy }: Charge): number[] {
  const { list, width } = policy.algorithm;
  return list ? [] : new Array<number>(width).fill(0);
}
