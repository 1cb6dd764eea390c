/** Merges counters of aligned windows that were counted apart. */
import type { CompiledPolicy } from "../core/compile.ts";
import { type StateMerging, windowStart } from "./algorithm.ts";

/** For states of a window's start and one or two counters, the current one last. */
export const windowMerging: StateMerging = {
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
