/** The state of a bucket as stores keep it, and the result of a decision as a value. */
import type { Decision } from "./decision.ts";

/** An amount that is reserved until it is settled, or until its end. */
export interface StoredHold {
  /** Its id, unique in its bucket. */
  readonly id: string;
  /** The reserved amount. */
  readonly amount: number;
  /** The instant at which it ends, in ms. */
  readonly end: number;
}

/** A settled amount that did not fit. Nothing is admitted until it does. */
export interface Debt {
  /** The amount, at most one limit. */
  readonly amount: number;
  /** The first instant at which it fits, in ms. */
  readonly dueAt: number;
}

/** The state of a bucket with holds. It is plain data, so a store may serialise it. */
export interface HeldState {
  /** The state of the algorithm; empty if nothing is in use. */
  readonly base: readonly number[];
  /** When the holds were last written, in ms. Detects a clock that has stepped back. */
  readonly writtenAt: number;
  /** The holds, ordered by end, then age. */
  readonly holds: readonly StoredHold[];
  /** The debt, if there is one. */
  readonly debt?: Debt | undefined;
}

/** The state of a bucket without holds: whole numbers. Empty: never used, or full again. */
export type PlainState = readonly number[];

/** The state of a bucket, to be stored as it is. `undefined`: never used, or full again. */
export type State = PlainState | HeldState;

/** Whether a bucket has holds or a debt. */
export function isHeldState(state: State | undefined): state is HeldState {
  return state !== undefined && "holds" in state;
}

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
