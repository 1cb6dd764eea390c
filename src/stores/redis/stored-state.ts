/** The state of a bucket that has holds or strikes, as the script replies it, and the decision that follows from it. */

import type { Cells, CompiledPolicy } from "../../core/compiled-policy.ts";
import type { Decision } from "../../core/decision.ts";
import { recordGrant } from "../../core/grant.ts";
import type { State } from "../../core/state.ts";
import { peek } from "../../core/step.ts";
import { HeldBucket } from "../../holds/held-state.ts";
import { ALL_MODES } from "../../holds/hold-modes.ts";
import { parseHolds } from "../holds-text.ts";
import type { Action, Step } from "./job.ts";

/** The part of a reply about a bucket that has holds, or about a penalty. */
export interface StateReply {
  /** Whether the charge is admitted; of a settlement, whether there was a hold; on a penalty, whether there was a block. */
  readonly admitted: boolean;
  /** The state after the charge. */
  readonly state: State;
  /** Of a settlement: what it did not charge. */
  readonly forgiven: number;
}

/**
 * Parses a list `[admitted, value, forgiven]` of the script, or `[admitted, front, forgiven, before, at]`: the front of the
 * value, and the value before, whose holds start at a character. Returns `undefined` if the value is damaged.
 */
export function parseStateReply(
  [admitted, value, forgiven, before, at]: readonly unknown[],
  policy: CompiledPolicy,
): StateReply | undefined {
  const holds = typeof before === "string" ? before.slice(Number(at) - 1) : "";
  // A client may have parsed a value that is a number.
  const state = parseValue(`${value}${holds}`, policy);
  return state && { admitted: Number(admitted) === 1, state, forgiven: Number(forgiven ?? 0) };
}

/** Parses a stored value: the numbers of the algorithm, then the holds. */
function parseValue(value: string, { algorithm }: CompiledPolicy): State | undefined {
  const bar = value.indexOf("|");
  const base = (bar < 0 ? value : value.slice(0, bar)).match(/\d+/g)?.map(Number) ?? [];
  const { list, width } = algorithm;
  // Some algorithms don't store zeros at the end.
  if (!list && base.length > 0) while (base.length < width) base.push(0);
  if (bar < 0) return base;
  const holds = parseHolds(value.slice(bar + 1));
  return holds && { base, ...holds };
}

/** Whether a charge of this mode denies its group if it is not admitted. */
export function denies(mode: Action, { kind }: CompiledPolicy): boolean {
  return mode !== "inspect" && ALL_MODES[mode].asks && !(mode === "hold" && kind === "penalty");
}

/** Makes the decision on a step from the state after it. */
export function decisionFromState(step: Step, reply: StateReply, now: number): Decision {
  const { policy } = step;
  return policy.kind === "penalty" ? penaltyDecision(step, reply, now) : heldDecision(step, reply, now);
}

function heldDecision(
  { policy, mode, cost, hold }: Step,
  { admitted, state, forgiven }: StateReply,
  now: number,
): Decision {
  const bucket = new HeldBucket(state, policy, now);
  if (mode === "settle" && !admitted) return bucket.missing();
  const decision = bucket.decision(admitted, cost, mode === "hold" ? hold?.id : undefined);
  if (mode === "settle" && forgiven > 0) return { ...decision, forgiven };
  return mode === "take" && admitted
    ? recordGrant(decision, now + (cost > 0 ? bucket.ownResetAfter() : 0), cost)
    : decision;
}

/** On a penalty, `take` strikes and `hold` blocks: both report the state after it, as a cost of 1 would find it. */
function penaltyDecision({ policy, mode, cost }: Step, { admitted, state }: StateReply, now: number): Decision {
  let asked = mode !== "inspect" && ALL_MODES[mode].asks ? cost : 0;
  if (mode === "take" && admitted) asked = Math.min(cost, 1);
  if (mode === "hold") asked = admitted ? 1 : 0;
  const bucket = { algorithm: policy.algorithm, cells: state as Cells, at: 0, policy };
  const decision = peek(bucket, asked, now);
  if (mode !== "settle" || admitted) return decision;
  const { limit, remaining, resetAfterMs, nextAfterMs } = decision;
  return { allowed: false, policy: policy.name, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs: null };
}
