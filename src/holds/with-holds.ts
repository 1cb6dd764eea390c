/** The group engine with holds, for stores that keep states as data: those of other processes may have holds. */
import type { Charge, Group } from "../core/charge.ts";
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import { decide as decideCharge, decideGroup as decideCharges, type ReadState } from "../core/decide.ts";
import { describeState as describe, type StateDescription } from "../core/describe-state.ts";
import type { DecideResult, State } from "../core/state.ts";
import { holdEngine } from "./decide-held.ts";

/** Applies one charge to a state at `now`, in whole milliseconds. */
export function decide(state: State | undefined, charge: Charge, now: number): DecideResult {
  return decideCharge(state, charge, now, holdEngine);
}

/**
 * Decides a group of charges, all or nothing. `read` returns the state of a charge's bucket; a group names no bucket
 * twice. Write the state of every result that has changed, in the same atomic step.
 */
export function decideGroup(group: Group, read: ReadState, now: number): DecideResult[] {
  return decideCharges(group, read, now, holdEngine);
}

/** Describes a state at `now`. */
export function describeState(state: State | undefined, policy: CompiledPolicy, now: number): StateDescription {
  return describe(state, policy, now, holdEngine);
}
