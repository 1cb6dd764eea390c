/**
 * Leaky bucket: a queue that drains at a steady rate. It admits what a token bucket admits, but says
 * how long each request has to wait for those before it.
 */
import type { Decision } from "../core/decision.ts";
import type { Terms } from "../core/terms.ts";
import type { Algorithm } from "./algorithm.ts";
import { deficitAt, tokenBucket } from "./token-bucket.ts";

/** Cells: the instant at which the queue is empty, in whole milliseconds and the rest in 1/p. */
export const leakyBucket: Algorithm = {
  ...tokenBucket,
  name: "leaky-bucket",

  take(cells, at, terms, cost, now) {
    const queued = deficitAt(cells, at, terms, now);
    return delayed(tokenBucket.take(cells, at, terms, cost, now), terms, queued);
  },

  peek(cells, at, terms, cost, now) {
    const queued = deficitAt(cells, at, terms, now);
    return delayed(tokenBucket.peek(cells, at, terms, cost, now), terms, queued);
  },
};

/** What is admitted waits until all that was queued before it has drained. */
function delayed(decision: Decision, { p }: Terms, queued: number): Decision {
  return decision.allowed ? { ...decision, delayMs: Math.ceil(queued / p) } : decision;
}
