/** A bucket's state as text: its whole numbers, with commas between them. */
import { algorithms } from "../../../../algorithms/algorithms.ts";
import type { AlgorithmName } from "../../../../core/policy.ts";

/** The text of a state. */
export function stateText(state: readonly number[]): string {
  return state.join();
}

/** The state that a text stands for; `undefined` for one of another version, or of none. It is then as if never written. */
export function readState(text: unknown, algorithm: AlgorithmName): readonly number[] | undefined {
  if (typeof text !== "string" || !/^\d+(?:,\d+)*$/.test(text)) return undefined;
  const state = text.split(",").map(Number);
  return isState(state, algorithm) ? state : undefined;
}

/** Whether numbers are a state of an algorithm, and not of another one. */
export function isState(state: readonly number[], algorithm: AlgorithmName): boolean {
  if (!state.every(Number.isSafeInteger)) return false;
  const { width, list } = algorithms[algorithm];
  if (!list) return state.length === width;
  // A log is the sum of its costs, and then pairs of an end and a cost.
  let [sum = 0, last] = [state[0], 0];
  for (let i = 1; i < state.length; i += 2) {
    if ((state[i] as number) < last) return false;
    last = state[i] as number;
    sum -= state[i + 1] ?? Number.NaN;
  }
  return sum === 0;
}
