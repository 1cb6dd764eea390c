/** Describes the state of a bucket for people to read. */
import type { CompiledPolicy } from "../core/compiled-policy.ts";
import type { Inspection } from "../core/decision.ts";
import { algorithms } from "./algorithms.ts";
import { decide } from "./decide.ts";
import { isHeldState, type State } from "./held-state.ts";
import { HeldBucket } from "./holds.ts";
import { penaltyStatus } from "./penalty.ts";

/** The part of an inspection that follows from the state. */
export type StateDescription = Pick<
  Inspection,
  "policy" | "found" | "limit" | "remaining" | "resetAfterMs" | "holds" | "debt" | "strikes" | "blockedMs"
>;

/** Describes a state at `now`. */
export function describeState(state: State | undefined, policy: CompiledPolicy, now: number): StateDescription {
  const { decision } = decide(state, { policy, key: "", cost: 0, mode: "peek" }, now);
  const { limit, remaining, resetAfterMs } = decision;
  const fields = { policy: policy.name, found: resetAfterMs > 0, limit, remaining, resetAfterMs };
  if (isHeldState(state)) {
    const { holds, debt } = new HeldBucket(state, policy, now).describe();
    return { ...fields, ...(holds.length > 0 && { holds }), ...(debt > 0 && { debt }) };
  }
  return algorithms[policy.algorithm].block ? { ...fields, ...penaltyStatus(state ?? [], policy, now) } : fields;
}
