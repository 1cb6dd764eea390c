/** A bucket's state as text: its whole numbers, with commas between them. */
import { isState } from "../../../../algorithms/algorithm.ts";
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
  return isState(state, algorithms[algorithm]) ? state : undefined;
}
