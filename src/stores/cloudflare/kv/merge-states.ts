/** Merges what KV holds with what this isolate has granted since it was read. */
import type { StateMerging } from "../../../algorithms/algorithm.ts";
import { algorithms } from "../../../algorithms/algorithms.ts";
import type { CompiledPolicy } from "../../../core/compile.ts";

/** Moves a state dated in the future to the window of `now`. */
export function clampToNow(state: readonly number[], policy: CompiledPolicy, now: number): readonly number[] {
  return mergingOf(policy).clampToNow(state, policy, now);
}

/** Adds two states of a policy, neither dated in the future. An empty state counts nothing. */
export function mergeStates(a: readonly number[], b: readonly number[], policy: CompiledPolicy): readonly number[] {
  if (a.length === 0 || b.length === 0) return a.length === 0 ? b : a;
  return mergingOf(policy).merge(a, b, policy);
}

/** `kvStore` rejects algorithms without it. */
function mergingOf({ algorithm }: CompiledPolicy): StateMerging {
  return algorithms[algorithm].merging as StateMerging;
}
