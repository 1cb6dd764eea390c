/**
 * Leaky bucket: a queue that drains at a steady rate. It admits what a token bucket admits, but says
 * how long each request has to wait for those before it.
 */
import type { Decision } from "../core/decision.ts";
import type { Terms } from "../core/terms.ts";
import type { Algorithm } from "./algorithm.ts";
import { deficitAt, denied, heal, settle, shortfall, tokenBucket, untilNext } from "./token-bucket.ts";

/** Cells: the instant at which the queue is empty, in whole milliseconds and the rest in 1/p. */
export const leakyBucket: Algorithm = {
  ...tokenBucket,
  name: "leaky-bucket",

  take(cells, at, terms, cost, now) {
    const queued = deficitAt(cells, at, terms, now);
    const lacking = shortfall(queued, terms, cost);
    if (lacking > 0) {
      heal(cells, at, terms, cost, queued, now);
      return denied(terms, queued, cost, lacking);
    }
    if (cost === 0) return admitted(terms, queued, queued);
    const after = queued + cost * terms.q;
    settle(cells, at, terms, after, now);
    return admitted(terms, after, queued);
  },

  peek(cells, at, terms, cost, now) {
    const queued = deficitAt(cells, at, terms, now);
    const lacking = shortfall(queued, terms, cost);
    return lacking > 0 ? denied(terms, queued, cost, lacking) : admitted(terms, queued, queued);
  },
};

function admitted(terms: Terms, queued: number, before: number): Decision {
  const { limit, p, q } = terms;
  const used = Math.ceil(queued / q);
  return {
    allowed: true,
    policy: terms.name,
    limit,
    remaining: limit - used,
    resetAfterMs: Math.ceil(queued / p),
    nextAfterMs: untilNext(terms, queued, used),
    delayMs: Math.ceil(before / p),
  };
}
