/** A bucket that belongs to one connection: a few numbers, and neither a key nor a store. */
import type { Cells } from "../../algorithms/algorithm.ts";
import { algorithms } from "../../algorithms/algorithms.ts";
import { take } from "../../algorithms/step.ts";
import type { CompiledPolicy } from "../../core/compile.ts";
import type { Decision } from "../../core/decision.ts";

/** The numbers of a bucket, for whoever keeps them while a server sleeps. */
export type BucketState = readonly number[];

/** One policy for one connection. */
export class ConnectionBucket {
  private readonly policy: CompiledPolicy;
  private readonly cells: Cells;

  constructor(policy: CompiledPolicy, state?: BucketState) {
    this.policy = policy;
    const { list, width } = algorithms[policy.algorithm];
    const numbers = state && isState(state, list ? state.length : width) ? [...state] : undefined;
    this.cells = list ? [numbers ?? []] : (numbers ?? new Array<number>(width).fill(0));
  }

  take(cost: number, now: number): Decision {
    return take(algorithms[this.policy.algorithm], this.cells, 0, this.policy, cost, now);
  }

  state(): BucketState {
    const [first] = this.cells;
    return typeof first === "object" ? first : (this.cells as number[]);
  }
}

/** What was kept may be of another policy: then the bucket begins anew. */
function isState(state: unknown, width: number): state is BucketState {
  return Array.isArray(state) && state.length === width && state.every((number) => Number.isSafeInteger(number));
}
