/** Adds up states of one window algorithm that several isolates have counted. */
import { windowStart } from "../../../algorithms/algorithm.ts";
import type { CompiledPolicy } from "../../../core/compile.ts";

/**
 * Moves a state that is dated in the future, because another clock is ahead or ours stepped back, into the window of
 * `now`: states can be added up only if their windows are the same.
 */
export function clampToNow(state: readonly number[], policy: CompiledPolicy, now: number): readonly number[] {
  if (policy.algorithm === "sliding-log") {
    const lastEnd = now + policy.windowMs;
    const isInFuture = state.some((cell, i) => i % 2 === 1 && cell > lastEnd);
    return isInFuture ? state.map((cell, i) => (i % 2 === 1 ? Math.min(cell, lastEnd) : cell)) : state;
  }
  const [start = 0, ...counts] = state;
  if (start <= now) return state;
  const total = counts.reduce((sum, count) => sum + count, 0);
  return [windowStart(policy, now), ...counts.map((_, i) => (i === counts.length - 1 ? total : 0))];
}

/** Adds two states, neither of them dated in the future. An empty state is one without grants. */
export function mergeStates(a: readonly number[], b: readonly number[], policy: CompiledPolicy): readonly number[] {
  if (a.length === 0 || b.length === 0) return a.length === 0 ? b : a;
  if (policy.algorithm === "sliding-log") return mergeLogs(a, b);
  // Windows start at the same times everywhere, so the later start is the current window.
  const start = Math.max(a[0] as number, b[0] as number);
  const [countsA, countsB] = [countsAt(a, start, policy), countsAt(b, start, policy)];
  return [start, ...countsA.map((count, i) => count + (countsB[i] as number))];
}

/** Returns the counters of a state in the window of `start`: unchanged, moved to the previous window, or 0. */
function countsAt([ownStart = 0, ...counts]: readonly number[], start: number, { windowMs }: CompiledPolicy): number[] {
  if (ownStart > start - windowMs) return counts;
  const moved = counts.map(() => 0);
  if (counts.length > 1 && ownStart > start - 2 * windowMs) moved[0] = counts[1] as number;
  return moved;
}

/** Merges two logs: the sum of all costs, followed by pairs of an end time and a cost, oldest first. */
function mergeLogs([sumA = 0, ...a]: readonly number[], [sumB = 0, ...b]: readonly number[]): number[] {
  const merged = [sumA + sumB];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const isFromA = j >= b.length || (i < a.length && (a[i] as number) <= (b[j] as number));
    const [end, cost] = isFromA ? [a[i++], a[i++]] : [b[j++], b[j++]];
    if (merged.length > 1 && merged.at(-2) === end) merged.push((merged.pop() as number) + (cost as number));
    else merged.push(end as number, cost as number);
  }
  return merged;
}
