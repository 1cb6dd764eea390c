/** Stores a bucket's state as text: its whole numbers, separated by commas. */
import { algorithms } from "../../../../algorithms/algorithms.ts";
import type { AlgorithmName } from "../../../../core/policy.ts";

/** Formats a state. */
export function formatState(state: readonly number[]): string {
  return state.join();
}

/** Parses a state. Returns `undefined` for damaged text and for text of another version; the bucket is then full. */
export function parseState(text: unknown, algorithm: AlgorithmName): readonly number[] | undefined {
  if (typeof text !== "string" || !/^\d+(?:,\d+)*$/.test(text)) return undefined;
  const state = text.split(",").map(Number);
  return isState(state, algorithm) ? state : undefined;
}

/** Whether the numbers are a valid state of the algorithm. */
export function isState(state: readonly number[], algorithm: AlgorithmName): boolean {
  if (!state.every(Number.isSafeInteger)) return false;
  const { width, list } = algorithms[algorithm];
  if (!list) return state.length === width;
  // A log is the sum of its costs, followed by pairs of an end time and a cost, oldest first.
  let [sum = 0, lastEnd] = [state[0], 0];
  for (let i = 1; i < state.length; i += 2) {
    if ((state[i] as number) < lastEnd) return false;
    lastEnd = state[i] as number;
    sum -= state[i + 1] ?? Number.NaN;
  }
  return sum === 0;
}
