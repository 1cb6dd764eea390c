/** One decision as a value: state in, decision and next state out, nothing changed in place. */
import type { Charge } from "../core/charge.ts";
import type { Decision } from "../core/decision.ts";
import type { Cells } from "./algorithm.ts";
import { algorithms } from "./algorithms.ts";
import { peek, refund, take } from "./step.ts";

/** What came of one charge. */
export interface DecideResult {
  /** The answer. */
  readonly decision: Decision;
  /** The next state: whole numbers, to be kept as they are. */
  readonly state: readonly number[];
  /** Whether the state has to be written: a denial changes it only to heal one from the future. */
  readonly changed: boolean;
  /** How long it has to be kept: until the bucket is full. */
  readonly ttlMs: number;
}

/** Applies one charge to a state (`undefined`: a key never seen) at `now`, in whole milliseconds. */
export function decide(state: readonly number[] | undefined, charge: Charge, now: number): DecideResult {
  const { policy, cost, mode } = charge;
  const algorithm = algorithms[policy.algorithm];
  const before = state ?? (algorithm.list ? [] : new Array<number>(algorithm.width).fill(0));
  const after = [...before];
  const cells: Cells = algorithm.list ? [after] : after;
  if (mode === "refund") refund(algorithm, cells, 0, policy, cost, now, charge.grantEndsAt);
  const decision =
    mode === "take"
      ? take(algorithm, cells, 0, policy, cost, now)
      : peek(algorithm, cells, 0, policy, mode === "peek" ? cost : 0, now);
  const changed = after.length !== before.length || after.some((cell, i) => cell !== before[i]);
  return { decision, state: after, changed, ttlMs: Math.max(1, decision.resetAfterMs) };
}
