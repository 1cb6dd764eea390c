/** Merges what KV holds with what this isolate has granted since it was read. */

import type { CompiledPolicy } from "../../../core/compiled-policy.ts";
import { windowStart } from "../../../core/compiled-policy.ts";

type State = readonly number[];

interface Merging {
  clampToNow(state: State, policy: CompiledPolicy, now: number): State;
  merge(a: State, b: State, policy: CompiledPolicy): State;
}

/** Moves a state dated in the future to the window of `now`: all isolates have to count in the same windows. */
export function clampToNow(state: State, policy: CompiledPolicy, now: number): State {
  return mergingOf(policy).clampToNow(state, policy, now);
}

/** Adds two states of a policy, neither dated in the future. An empty state counts nothing. */
export function mergeStates(a: State, b: State, policy: CompiledPolicy): State {
  if (a.length === 0 || b.length === 0) return a.length === 0 ? b : a;
  return mergingOf(policy).merge(a, b, policy);
}

/** `kvStore` rejects algorithms without it. */
function mergingOf({ algorithm }: CompiledPolicy): Merging {
  return algorithm.mergesAs === "log" ? logMerging : windowMerging;
}

/** For states of a window's start and one or two counters, the current one last. */
const windowMerging: Merging = {
  clampToNow(state, policy, now) {
    const [start = 0, ...counts] = state;
    if (start <= now) return state;
    const count = counts.reduce((sum, count) => sum + count, 0);
    return [windowStart(policy, now), ...counts.map((_, i) => (i === counts.length - 1 ? count : 0))];
  },

  merge(a, b, policy) {
    // Windows start at the same instants everywhere; the later one counts.
    const start = Math.max(a[0] as number, b[0] as number);
    const [first, second] = [countsAt(a, start, policy), countsAt(b, start, policy)];
    return [start, ...first.map((count, i) => count + (second[i] as number))];
  },
};

/** The counters of a state in the window that starts at `start`: unchanged, moved to the previous window, or expired. */
function countsAt([own = 0, ...counts]: readonly number[], start: number, { windowMs }: CompiledPolicy): number[] {
  if (own > start - windowMs) return counts;
  const over = counts.map(() => 0);
  if (counts.length > 1 && own > start - 2 * windowMs) over[0] = counts[1] as number;
  return over;
}

/** For states of the sum of all costs, followed by pairs of end and cost, oldest first. */
const logMerging: Merging = {
  clampToNow(state, { windowMs }, now) {
    const latest = now + windowMs;
    const isInFuture = state.some((cell, i) => i % 2 === 1 && cell > latest);
    return isInFuture ? state.map((cell, i) => (i % 2 === 1 ? Math.min(cell, latest) : cell)) : state;
  },

  merge([sum = 0, ...a], [more = 0, ...b]) {
    const merged = [sum + more];
    let [i, j] = [0, 0];
    while (i < a.length || j < b.length) {
      const isFromA = j >= b.length || (i < a.length && (a[i] as number) <= (b[j] as number));
      const [end, cost] = isFromA ? [a[i++], a[i++]] : [b[j++], b[j++]];
      if (merged.length > 1 && merged.at(-2) === end) merged.push((merged.pop() as number) + (cost as number));
      else merged.push(end as number, cost as number);
    }
    return merged;
  },
};
