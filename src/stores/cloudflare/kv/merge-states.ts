/** Two counts of one window made one: what KV holds, and what this isolate has granted since it was read. */
import { windowStart } from "../../../algorithms/algorithm.ts";
import type { CompiledPolicy } from "../../../core/compile.ts";

/**
 * A state as it counts now. What lies in the future, because another clock is ahead or ours was, begins with the window
 * of now: whoever counts together has to count in the same windows.
 */
export function inPresent(state: readonly number[], policy: CompiledPolicy, now: number): readonly number[] {
  if (policy.algorithm === "sliding-log") {
    const latest = now + policy.windowMs;
    const ahead = state.some((cell, i) => i % 2 === 1 && cell > latest);
    return ahead ? state.map((cell, i) => (i % 2 === 1 ? Math.min(cell, latest) : cell)) : state;
  }
  const [start = 0, ...counts] = state;
  if (start <= now) return state;
  const count = counts.reduce((sum, count) => sum + count, 0);
  return [windowStart(policy, now), ...counts.map((_, i) => (i === counts.length - 1 ? count : 0))];
}

/** The sum of two states of a policy, neither of them in the future. A state is empty when nothing was counted. */
export function mergeStates(a: readonly number[], b: readonly number[], policy: CompiledPolicy): readonly number[] {
  if (a.length === 0 || b.length === 0) return a.length === 0 ? b : a;
  if (policy.algorithm === "sliding-log") return mergeLogs(a, b);
  // Windows begin at the same instants everywhere; the later one is the one that counts.
  const start = Math.max(a[0] as number, b[0] as number);
  const [first, second] = [countsAt(a, start, policy), countsAt(b, start, policy)];
  return [start, ...first.map((count, i) => count + (second[i] as number))];
}

/** The counters of a state when the window of `start` has begun: they count on, have become the ones before, or are over. */
function countsAt([own = 0, ...counts]: readonly number[], start: number, { windowMs }: CompiledPolicy): number[] {
  if (own > start - windowMs) return counts;
  const over = counts.map(() => 0);
  if (counts.length > 1 && own > start - 2 * windowMs) over[0] = counts[1] as number;
  return over;
}

/** Pairs of an end and a cost in order, after the sum of all costs. */
function mergeLogs([sum = 0, ...a]: readonly number[], [more = 0, ...b]: readonly number[]): number[] {
  const merged = [sum + more];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    const fromA = j >= b.length || (i < a.length && (a[i] as number) <= (b[j] as number));
    const [end, cost] = fromA ? [a[i++], a[i++]] : [b[j++], b[j++]];
    if (merged.length > 1 && merged.at(-2) === end) merged.push((merged.pop() as number) + (cost as number));
    else merged.push(end as number, cost as number);
  }
  return merged;
}
