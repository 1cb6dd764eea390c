/** Stores a bucket's state as text: its whole numbers, separated by commas. */
import { isState } from "../../../../algorithms/algorithm.ts";
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
  return isState(state, algorithms[algorithm]) ? state : undefined;
}
