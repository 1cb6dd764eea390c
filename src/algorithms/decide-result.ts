/** The result of a decision as a value. */
import type { Decision } from "../core/decision.ts";
import type { State } from "./held-state.ts";

/** The result of one charge. */
export interface DecideResult {
  /** The decision. */
  readonly decision: Decision;
  /** The next state. If it is empty, delete the bucket. */
  readonly state: State;
  /** Whether the state has to be written. A denial changes it only to clamp one dated in the future, or for a strike. */
  readonly changed: boolean;
  /** How long the state has to be kept, in ms: until the bucket is full. */
  readonly ttlMs: number;
}
