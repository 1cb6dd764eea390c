/** Helpers of algorithms. Their interface is in core/compiled-policy.ts. */
import type { Algorithm, CompiledPolicy } from "./compiled-policy.ts";

/** The start of the window that contains `now`. Windows start at multiples of their length. */
export function windowStart({ windowMs }: CompiledPolicy, now: number): number {
  return now - (now % windowMs);
}

/** Whether whole numbers are a state of an algorithm, and not of another one. */
export function isState(state: readonly number[], { width, list, isList }: Algorithm): boolean {
  if (!state.every(Number.isSafeInteger)) return false;
  return list ? isList?.(state) === true : state.length === width;
}
