/** Decisions as values: state in, decision and next state out, nothing changed in place. */
import type { Charge, Group } from "../core/charge.ts";
import type { Decision } from "../core/decision.ts";
import { algorithms } from "./algorithms.ts";
import { decideHeld, denyHeld, fitsHeld, strikeHeld } from "./decide-held.ts";
import type { DecideResult } from "./decide-result.ts";
import { isHeldState, type PlainState, type State } from "./held-state.ts";
import { HeldBucket } from "./holds.ts";
import { type Action, MODES } from "./modes.ts";
import { add, type Bucket, clampToNow, fits, peek, refund, take } from "./step.ts";

/** Returns the state of a charge's bucket, given the charge and its index in the group. */
export type ReadState = (charge: Charge, index: number) => State | undefined;

/** Applies one charge to a state at `now`, in whole milliseconds. */
export function decide(state: State | undefined, charge: Charge, now: number): DecideResult {
  const { mode, cost, policy } = charge;
  if (!isPlain(state, charge)) return decideHeld(new HeldBucket(state, policy, now), state, charge, now);
  if (mode === "take") {
    // Not by fits() and add(): that would compute the use twice.
    return change(state, charge, ({ algorithm, cells }) => take(algorithm, cells, 0, policy, cost, now));
  }
  if (mode === "penalty") return deny(state, charge, now);
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
  const fit = group.map((charge, i) => fitsInto(states[i], charge, now));
  if (!fit.includes(false)) return group.map((charge, i) => decide(states[i], charge, now));
  const isViolation = countsAsViolation(group, fit);
  return group.map((charge, i) => {
    const state = states[i];
    const { applyIfDenied } = MODES[charge.mode];
    if (!isPlain(state, charge)) {
      const bucket = new HeldBucket(state, charge.policy, now);
      return isViolation && applyIfDenied ? strikeHeld(bucket, state, charge) : denyHeld(bucket, state, charge);
    }
    if (isViolation && applyIfDenied) return applyAction(state, charge, applyIfDenied, now);
    return charge.mode === "peek" || !asksFor(charge)
      ? applyAction(state, charge, undefined, now)
      : deny(state, charge, now);
  });
}

/** The decision on a charge that takes nothing. If it does not fit, it clamps a state dated in the future. */
function deny(state: PlainState | undefined, charge: Charge, now: number): DecideResult {
  return change(state, charge, (bucket) => {
    clampToNow(bucket, charge.cost, now);
    return peek(bucket, charge.cost, now);
  });
}

/** Whether holds play no part in a charge: it is decided by the algorithm alone. */
function isPlain(state: State | undefined, { mode, policy }: Charge): state is PlainState | undefined {
  if (isHeldState(state)) return false;
  return (mode !== "hold" && mode !== "settle") || algorithms[policy.algorithm].block !== undefined;
}

/** Whether a charge admits its group. */
function fitsInto(state: State | undefined, charge: Charge, now: number): boolean {
  if (!asksFor(charge)) return true;
  if (isPlain(state, charge)) return fits(view(state, charge), charge.cost, now);
  return fitsHeld(new HeldBucket(state, charge.policy, now), charge);
}

/** Whether a charge can be denied. Blocking a key never is. */
function asksFor({ mode, policy }: Charge): boolean {
  return MODES[mode].asks && !(mode === "hold" && algorithms[policy.algorithm].block);
}

/**
 * Whether a denied group is a violation, which charges in mode `penalty` record: some other charge denies although its
 * cost could fit, no penalty does, and the group was not only a look.
 */
export function countsAsViolation(group: Group, fit: readonly boolean[]): boolean {
  let isOnlyLook = true;
  for (const [i, { mode, cost, policy }] of group.entries()) {
    if (MODES[mode].apply) isOnlyLook = false;
    if (fit[i]) continue;
    if (MODES[mode].applyIfDenied || algorithms[policy.algorithm].block || cost > policy.limit) return false;
  }
  return !isOnlyLook;
}

/** Applies an action, or none, and returns the decision with the numbers after it. */
function applyAction(
  state: PlainState | undefined,
  charge: Charge,
  action: Action | undefined,
  now: number,
): DecideResult {
  const { cost, grantEndsAt, hold } = charge;
  const asked = asksFor(charge) ? cost : 0;
  if (action === undefined) {
    const seen = peek(view(state, charge), asked, now);
    const decision = charge.mode === "settle" ? notSettled(seen) : seen;
    return { decision, state: state ?? [], changed: false, ttlMs: Math.max(1, decision.resetAfterMs) };
  }
  if (action === "clear") return cleared(charge, now);
  return change(state, charge, (bucket) => {
    if (action === "add" && cost > 0) add(bucket, cost, now);
    if (action === "subtract") refund(bucket, cost, now, grantEndsAt);
    // Holding and settling a penalty is blocking and unblocking its key.
    if (action === "hold") bucket.algorithm.block?.(bucket.cells, 0, now, hold?.forMs ?? 0);
    const isMissing = action === "settle" && !bucket.algorithm.unblock?.(bucket.cells, 0, now);
    const decision = peek(bucket, action === "hold" ? 1 : asked, now);
    return isMissing ? notSettled(decision) : decision;
  });
}

/** Always written: a store may still have a value that it no longer reads, such as one whose time to live has ended. */
function cleared(charge: Charge, now: number): DecideResult {
  return { decision: peek(view(undefined, charge), 0, now), state: [], changed: true, ttlMs: 1 };
}

/** A settlement that had no effect. */
function notSettled({ policy, limit, remaining, resetAfterMs, nextAfterMs }: Decision): Decision {
  return { allowed: false, policy, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs: null };
}

/** Runs a step on a copy of the state. */
function change(before: PlainState | undefined, charge: Charge, step: (bucket: Bucket) => Decision): DecideResult {
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
function view(state: PlainState | undefined, charge: Charge): Bucket {
  const { policy } = charge;
  const algorithm = algorithms[policy.algorithm];
  const cells = (state?.length ? state : untouched(charge)) as number[];
  return { algorithm, cells: algorithm.list ? [cells] : cells, at: 0, policy };
}

function untouched({ policy }: Charge): number[] {
  const { list, width } = algorithms[policy.algorithm];
  return list ? [] : new Array<number>(width).fill(0);
}
