/** Counts the requests of one rule. */
import type { Decision } from "../core/decision.ts";
import { OUTCOMES } from "./outcomes.ts";

/** Classes of what is left of a limit: 0 to 10 %, …, 90 to 100 %. */
const REMAINING_CLASSES = 10;

/** The numbers of one rule. */
export class RuleCounts {
  readonly requests: Float64Array = new Float64Array(OUTCOMES.length);
  /** Requests that were decided without the store. */
  degraded = 0;
  /** How much of the limit was left after a request, as a histogram. */
  readonly remaining: Float64Array = new Float64Array(REMAINING_CLASSES);

  count(column: number, decision: Decision | undefined): void {
    this.requests[column] = (this.requests[column] as number) + 1;
    if (!decision || decision.unknown) return;
    const { source, remaining, limit } = decision;
    if (source !== undefined && source !== "cache") this.degraded++;
    if (limit > 0) {
      const share = Math.min(REMAINING_CLASSES - 1, Math.floor((remaining / limit) * REMAINING_CLASSES));
      this.remaining[share] = (this.remaining[share] as number) + 1;
    }
  }
}

/** The median of what is left of the limit, as a share from 0 to 1; `undefined` without requests. */
export function medianRemaining(remaining: ArrayLike<number>): number | undefined {
  let total = 0;
  for (let i = 0; i < remaining.length; i++) total += remaining[i] as number;
  if (total === 0) return undefined;
  let before = 0;
  for (let i = 0; i < remaining.length; i++) {
    const count = remaining[i] as number;
    if (before + count >= total / 2) return (i + (total / 2 - before) / count) / remaining.length;
    before += count;
  }
  return 1;
}
