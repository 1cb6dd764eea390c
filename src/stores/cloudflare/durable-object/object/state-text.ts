/** Stores a bucket's state as text: its whole numbers, separated by commas, followed by its holds. */

import type { Algorithm } from "../../../../core/compiled-policy.ts";
import { isState } from "../../../../core/compiled-policy.ts";
import { isHeldState, type State } from "../../../../core/state.ts";
import { formatHolds, parseHolds } from "../../../holds-text.ts";

/** Formats a state. */
export function formatState(state: State): string {
  return isHeldState(state) ? state.base.join() + formatHolds(state) : state.join();
}

/** Parses a state. Returns `undefined` for damaged text and for text of another version; the bucket is then full. */
export function parseState(text: unknown, algorithm: Algorithm): State | undefined {
  const [, own, held] = (typeof text === "string" && /^((?:\d+(?:,\d+)*)?)(?:\|(.*))?$/.exec(text)) || [];
  if (own === undefined) return undefined;
  const base = own === "" ? [] : own.split(",").map(Number);
  if (base.length > 0 && !isState(base, algorithm)) return undefined;
  if (held === undefined) return base.length > 0 ? base : undefined;
  const holds = parseHolds(held);
  return holds && { base, ...holds };
}

/** Size of a state, in numbers: a hold counts as three. */
export function stateSize(state: State): number {
  return isHeldState(state) ? state.base.length + 3 * state.holds.length + 3 : state.length;
}

/** Whether a cached state is one of this algorithm. */
export function isStateOf(state: State, algorithm: Algorithm): boolean {
  const base = isHeldState(state) ? state.base : state;
  return (isHeldState(state) && base.length === 0) || isState(base, algorithm);
}
