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
      heal(cells, at, terms, cost, deficit, now);
      return denied(terms, deficit, cost, lacking);
    }
    if (cost === 0) return allowed(terms, deficit);
    const after = deficit + cost * terms.q;
    settle(cells, at, terms, after, now);
    return allowed(terms, after);
  },

  peek(cells, at, terms, cost, now) {
    const deficit = deficitAt(cells, at, terms, now);
    const lacking = shortfall(deficit, terms, cost);
    return lacking > 0 ? denied(terms, deficit, cost, lacking) : allowed(terms, deficit);
  },

  refund(cells, at, terms, cost, now) {
    const deficit = deficitAt(cells, at, terms, now);
    settle(cells, at, terms, Math.max(0, deficit - Math.min(cost, terms.limit) * terms.q), now);
  },

  usage(cells, at, terms, now) {
    return deficitAt(cells, at, terms, now) / terms.cap;
  },
};

/** The units missing from a full bucket. A state from the future counts as empty, never as more. */
export function deficitAt(cells: Cells, at: number, terms: Terms, now: number): number {
  const ahead = (cells[at] as number) - now;
  if (ahead < 0) return 0;
  if (ahead > terms.windowMs) return terms.cap;
  // The part may have been written under another rate: it is never worth a whole millisecond.
  return Math.min(terms.cap, ahead * terms.p + Math.min(cells[at + 1] as number, terms.p - 1));
}

/** The units by which `cost` does not fit; it fits at 0 or less. */
export function shortfall(deficit: number, terms: Terms, cost: number): number {
  // In this order every step stays exact.
  return deficit - (terms.cap - cost * terms.q);
}

/** Writes a deficit as the instant at which it will be gone. */
export function settle(cells: Cells, at: number, { p }: Terms, deficit: number, now: number): void {
  const whole = Math.floor(deficit / p);
  cells[at] = now + whole;
  cells[at + 1] = deficit - whole * p;
}

/** An empty bucket is written back as just empty: a state that lay in the future must not stay there. */
export function heal(cells: Cells, at: number, terms: Terms, cost: number, deficit: number, now: number): void {
  if (deficit === terms.cap && cost <= terms.limit) settle(cells, at, terms, deficit, now);
}

/** What a denial reports. */
export function denied(terms: Terms, deficit: number, cost: number, lacking: number): Decision {
  const { limit, p, q } = terms;
  const used = Math.ceil(deficit / q);
  const retry = cost > limit ? null : Math.ceil(lacking / p);
  return deny(terms, limit - used, Math.ceil(deficit / p), untilNext(terms, deficit, used), retry);
}

function allowed(terms: Terms, deficit: number): Decision {
  const used = Math.ceil(deficit / terms.q);
  return allow(terms, terms.limit - used, Math.ceil(deficit / terms.p), untilNext(terms, deficit, used));
}

/** Milliseconds until one more token is whole. */
export function untilNext({ p, q }: Terms, deficit: number, used: number): number {
  return deficit === 0 ? 0 : Math.ceil((deficit - (used - 1) * q) / p);
}
