/** Describes the state of a bucket for people to read. */
import type { Charge, HoldEngine } from "./charge.ts";
import type { CompiledPolicy } from "./compiled-policy.ts";
import { decide, holdEngineOf } from "./decide.ts";
import type { Inspection } from "./decision.ts";
import { isHeldState, type State } from "./state.ts";

/** The part of an inspection that follows from the state. */
export type StateDescription = Pick<
  Inspection,
  "policy" | "found" | "limit" | "remaining" | "resetAfterMs" | "holds" | "debt" | "strikes" | "blockedMs"
>;

/** Describes a state at `now`. `engine` is that of `decide`. */
export function describeState(
  state: State | undefined,
  policy: CompiledPolicy,
  now: number,
  engine?: HoldEngine,
): StateDescription {
  const look: Charge = { policy, key: "", cost: 0, mode: "peek" };
  const { limit, remaining, resetAfterMs } = decide(state, look, now, engine).decision;
  const fields = { policy: policy.name, found: resetAfterMs > 0, limit, remaining, resetAfterMs };
  if (!isHeldState(state)) return { ...fields, ...policy.algorithm.describe?.(state ?? [], policy, now) };
  return { ...fields, ...holdEngineOf(state, look, engine).describe(state, policy, now) };
}
