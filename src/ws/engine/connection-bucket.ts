/** A bucket of one connection: a few numbers in memory, without a key or a store. */

import type { Cells, CompiledPolicy } from "../../core/compiled-policy.ts";
import type { Decision } from "../../core/decision.ts";
import { take } from "../../core/step.ts";

/** The numbers of a bucket, for servers that persist connections while they hibernate. */
export type BucketState = readonly number[];

/** The bucket of one policy for one connection. */
export class ConnectionBucket {
  private readonly policy: CompiledPolicy;
  private readonly cells: Cells;

  constructor(policy: CompiledPolicy, state?: BucketState) {
    this.policy = policy;
    const { list, width } = policy.algorithm;
    const numbers = state && isState(state, list ? state.length : width) ? [...state] : undefined;
    this.cells = list ? [numbers ?? []] : (numbers ?? new Array<number>(width).fill(0));
  }

  take(cost: number, now: number): Decision {
    return take(this.policy.algorithm, this.cells, 0, this.policy, cost, now);
  }

  state(): BucketState {
    const [first] = this.cells;
    return typeof first === "object" ? first : (this.cells as number[]);
  }
}

/** Whether persisted state fits the policy. State of another policy is dropped, and the bucket starts full. */
function isState(state: unknown, width: number): state is BucketState {
  return Array.isArray(state) && state.length === width && state.every((number) => Number.isSafeInteger(number));
}
