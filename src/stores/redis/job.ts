/** A queued group of charges and the promise of its caller. */

import type { Charge } from "../../core/charge.ts";
import type { Mode } from "../../core/compiled-policy.ts";
import type { Decision } from "../../core/decision.ts";
import type { State } from "../../core/state.ts";
import type { CallState } from "../../core/store.ts";

/** The actions of the script on a bucket: the modes of a charge, and `inspect`. */
export type Action = Mode | "inspect";

/** One charge with the stored key of its bucket. */
export interface Step extends Omit<Charge, "mode"> {
  readonly mode: Action;
  readonly storedKey: string;
  /** Minimum time to live of the stored value, in milliseconds. */
  readonly ttlMs: number;
}

/** A stored value, as `inspect` returns it. */
export interface StoredValue {
  readonly raw: string;
  /** Time to live in milliseconds. */
  readonly ttlMs: number;
  /** The state in the value, if it has holds or strikes. */
  readonly state?: State;
  /** The server's time in milliseconds since the epoch; present with `state`. */
  readonly now?: number;
}

/** A group that is queued or in flight. */
export interface Job {
  readonly steps: readonly Step[];
  /** The cluster slot of all its keys; 0 without a cluster. */
  readonly slot: number;
  readonly callState: CallState | undefined;
  /** Called with one decision per step, and the stored value if the last step is `inspect`. */
  resolve(decisions: Decision[], stored: StoredValue | undefined): void;
  reject(error: unknown): void;
}

/** A step on a list, such as a sliding log, takes Redis about as long as this many on a token bucket, whatever the limit. */
const LOG_WEIGHT = 4;
/** A refund of one grant may rewrite half of a log, and a hold all of a short one, which is as much as one call should do. */
const LOG_REWRITE_WEIGHT = 32;

/** Estimates the server time of a job, in steps on a token bucket. */
export function jobWeight({ steps }: Job): number {
  let weight = 0;
  for (const { policy, grantEndsAt, hold } of steps) {
    if (!policy.algorithm.list) weight += 1;
    else weight += grantEndsAt === undefined && hold === undefined ? LOG_WEIGHT : LOG_REWRITE_WEIGHT;
  }
  return weight;
}
