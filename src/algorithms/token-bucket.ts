/**
 * Token bucket: bursts up to the capacity, then a steady rate.
 *
 * Think of it as the instant at which the bucket will be full again: every grant moves it later,
 * and time alone brings it nearer. That instant is `full + part/p` ms, so that no fraction of a
 * token is ever rounded away. What is missing from a full bucket, its deficit, is counted in units:
 * one token is `q` units and one millisecond gives back `p`.
 */
import type { Decision } from "../core/decision.ts";
import type { Terms } from "../core/terms.ts";
import { type Algorithm, allow, type Cells, deny } from "./algorithm.ts";

/** Cells: the whole milliseconds of the instant, and the rest in 1/p. */
export const tokenBucket: Algorithm = {
  name: "token-bucket",
  width: 2,

  take(cells, at, terms, cost, now) {
    const deficit = deficitAt(cells, at, terms, now);
    const lacking = shortfall(deficit, terms, cost);
    if (lacking > 0) {
      // A state that lay in the future is written back as just empty, or it would stay there.
      if (deficit === terms.cap && cost <= terms.limit) settle(cells, at, terms, deficit, now);
      return denied(terms, deficit, cost, lacking);
    }
    const after = deficit + cost * terms.q;
    if (cost > 0) settle(cells, at, terms, after, now);
    return allowed(terms, after);
  },

  peek(cells, at, terms, cost, now) {
    const deficit = deficitAt(cells, at, terms, now);
    const lacking = shortfall(deficit, terms, cost);
    return lacking > 0 ? denied(terms, deficit, cost, lacking) : allowed(terms, deficit);
  },

  fits(cells, at, terms, cost, now) {
    return shortfall(deficitAt(cells, at, terms, now), terms, cost) <= 0;
  },

  refund(cells, at, terms, cost, now) {
    const deficit = deficitAt(cells, at, terms, now);
    // A full bucket stays as it is: written anew, it would lie in the future of a clock that steps back.
    if (deficit > 0) settle(cells, at, terms, Math.max(0, deficit - Math.min(cost, terms.limit) * terms.q), now);
  },

  usage(cells, at, terms, now) {
    return deficitAt(cells, at, terms, now) / terms.cap;
  },
};

/** The units missing from a full bucket. A state from the future counts as empty, never as more. */
export function deficitAt(cells: Cells, at: number, { p, cap, windowMs }: Terms, now: number): number {
  const ahead = (cells[at] as number) - now;
  if (ahead < 0) return 0;
  if (ahead > windowMs) return cap;
  const part = cells[at + 1] as number;
  // The part may have been written under another rate: it is never worth a whole millisecond.
  const deficit = ahead * p + (part < p ? part : p - 1);
  return deficit < cap ? deficit : cap;
}

/** The units by which `cost` does not fit; it fits at 0 or less. In this order every step is exact. */
function shortfall(deficit: number, { cap, q }: Terms, cost: number): number {
  return deficit - (cap - cost * q);
}

/** Writes a deficit as the instant at which it will be gone. */
function settle(cells: Cells, at: number, { p }: Terms, deficit: number, now: number): void {
  const whole = Math.floor(deficit / p);
  cells[at] = now + whole;
  cells[at + 1] = deficit - whole * p;
}

function allowed(terms: Terms, deficit: number): Decision {
  const { p, q, limit } = terms;
  const used = Math.ceil(deficit / q);
  return allow(terms, limit - used, Math.ceil(deficit / p), deficit === 0 ? 0 : Math.ceil((deficit - (used - 1) * q) / p));
}

function denied(terms: Terms, deficit: number, cost: number, lacking: number): Decision {
  const { remaining, resetAfterMs, nextAfterMs } = allowed(terms, deficit);
  return deny(terms, remaining, resetAfterMs, nextAfterMs, cost > terms.limit ? null : Math.ceil(lacking / terms.p));
}
