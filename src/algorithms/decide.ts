/** Decisions as values: state in, decision and next state out, nothing changed in place. */
import type { Charge, Group } from "../core/charge.ts";
import type { Decision } from "../core/decision.ts";
import { algorithms } from "./algorithms.ts";
import { type Action, MODES } from "./modes.ts";
import { add, type Bucket, clampToNow, fits, peek, refund, take } from "./step.ts";

/** The state of a bucket: whole numbers, to be stored as they are. Empty or `undefined`: never used, or full again. */
export type State = readonly number[];

/** The result of one charge. */
export interface DecideResult {
  /** The decision. */
  readonly decision: Decision;
  /** The next state. If it is empty, delete the bucket. */
  readonly state: State;
  /** Whether the state has to be written. A denial changes it only to clamp one dated in the future, or for a strike. */
  readonly changed: boolean;
  /** How long the state has to be kept, in ms: until the bucket is full. */
  readonly ttlMs: number;
}

/** Returns the state of a charge's bucket, given the charge and its index in the group. */
export type ReadState = (charge: Charge, index: number) => State | undefined;

/** Applies one charge to a state at `now`, in whole milliseconds. */
export function decide(state: State | undefined, charge: Charge, now: number): DecideResult {
  const { mode, cost, policy } = charge;
  if (mode === "take") {
    // Not by fits() and add(): that would compute the use twice.
    return change(state, charge, ({ algorithm, cells }) => take(algorithm, cells, 0, policy, cost, now));
  }
  return applyAction(state, charge, MODES[mode].apply, now);
}

/**
 * Decides a group of charges, all or nothing. `read` returns the state of a charge's bucket; a group names no bucket
 * twice. Write the state of every result that has changed, in the same atomic step.
 */
export function decideGroup(group: Group, read: ReadState, now: number): DecideResult[] {
  const [only] = group;
  if (only && group.length === 1) return [decide(read(only, 0), only, now)];
  const states = group.map(read);
  const fit = group.map((charge, i) => !MODES[charge.mode].asks || fits(view(states[i], charge), charge.cost, now));
  if (!fit.includes(false)) return group.map((charge, i) => decide(states[i], charge, now));
  const isViolation = countsAsViolation(group, fit);
  return group.map((charge, i) => {
    const { applyIfDenied } = MODES[charge.mode];
    if (isViolation && applyIfDenied) return applyAction(states[i], charge, applyIfDenied, now);
    if (charge.mode !== "take" || fit[i]) return applyAction(states[i], charge, undefined, now);
    return change(states[i], charge, (bucket) => {
      clampToNow(bucket, charge.cost, now);
      return peek(bucket, charge.cost, now);
    });
  });
}

/**
 * Whether a denied group is a violation, which charges in mode `penalty` record: some other charge denies although its
 * cost could fit, none of the penalties does, and the group was not only a look.
 */
function countsAsViolation(group: Group, fit: readonly boolean[]): boolean {
  let isOnlyLook = true;
  for (const [i, { mode, cost, policy }] of group.entries()) {
    if (MODES[mode].apply) isOnlyLook = false;
    if (!fit[i] && (MODES[mode].applyIfDenied || cost > policy.limit)) return false;
  }
  return !isOnlyLook;
}

/** Applies an action, or none, and returns the decision with the numbers after it. */
function applyAction(state: State | undefined, charge: Charge, action: Action | undefined, now: number): DecideResult {
  const { cost, mode, grantEndsAt } = charge;
  if (action === undefined) {
    const decision = peek(view(state, charge), MODES[mode].asks ? cost : 0, now);
    return { decision, state: state ?? [], changed: false, ttlMs: Math.max(1, decision.resetAfterMs) };
  }
  if (action === "clear") {
    // Always written: a store may still have a value that it no longer reads, such as one whose time to live has ended.
    return { decision: peek(view(undefined, charge), 0, now), state: [], changed: true, ttlMs: 1 };
  }
  return change(state, charge, (bucket) => {
    if (action === "add" && cost > 0) add(bucket, cost, now);
    if (action === "subtract") refund(bucket, cost, now, grantEndsAt);
    return peek(bucket, MODES[mode].asks ? cost : 0, now);
  });
}

/** Runs a step on a copy of the state. */
function change(before: State | undefined, charge: Charge, step: (bucket: Bucket) => Decision): DecideResult {
  const { policy } = charge;
  const algorithm = algorithms[policy.algorithm];
  const state = before?.length ? [...before] : untouched(charge);
  const decision = step({ algorithm, cells: algorithm.list ? [state] : state, at: 0, policy });
  const isEmpty = state.every((cell) => cell === 0);
  const changed = isEmpty
    ? (before?.some((cell) => cell !== 0) ?? false)
    : state.length !== before?.length || state.some((cell, i) => cell !== before[i]);
  return { decision, state: isEmpty ? [] : state, changed, ttlMs: Math.max(1, decision.resetAfterMs) };
}

/** A bucket for steps that only read. */
function view(state: State | undefined, charge: Charge): Bucket {
  const { policy } = charge;
  const algorithm = algorithms[policy.algorithm];
  const cells = (state?.length ? state : untouched(charge)) as number[];
  return { algorithm, cells: algorithm.list ? [cells] : cells, at: 0, policy };
}

function untouched({ policy }: Charge): number[] {
  const { list, width } = algorithms[policy.algorithm];
  return list ? [] : new Array<number>(width).fill(0);
}
