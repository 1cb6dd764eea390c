/**
 * Token bucket: bursts up to the capacity, then a steady rate.
 *
 * Think of it as the instant at which the bucket will be full again: every grant moves it later, and
 * time alone brings it nearer. That instant is `full + part/p` ms, so that no fraction of a token is
 * ever rounded away. One token is `unit` units, and one millisecond gives back `p` of them.
 */
import type { Decision } from "../core/decision.ts";
import type { Terms } from "../core/terms.ts";
import type { Algorithm, Cells } from "./algorithm.ts";

/** Cells: the whole milliseconds of the instant, and the rest in 1/p. */
export const bucket: Omit<Algorithm, "name"> = {
  width: 2,
  used,
  wait: (_cells, _at, { p }, _now, amount) => Math.ceil(amount / p),
  reset: (_cells, _at, { p }, _now, used) => Math.ceil(used / p),
  // An empty bucket may have been cut down to empty; written again it is the same or healed.
  ahead: (_cells, _at, { cap }, _now, used) => used === cap,

  add(cells, at, terms, now, used, cost) {
    settle(cells, at, terms, now, used + cost * terms.unit);
  },

  giveBack(cells, at, terms, now, used, cost) {
    settle(cells, at, terms, now, Math.max(0, used - Math.min(cost, terms.limit) * terms.unit));
  },
};

/** The default, so that its `take` is the generic one of step.ts written out, in half the time. */
export const tokenBucket: Algorithm = {
  ...bucket,
  name: "token-bucket",

  take(cells, at, terms, cost, now) {
    const { name: policy, limit, unit, cap, p } = terms;
    const before = used(cells, at, terms, now);
    const over = before - (cap - cost * unit);
    if (over > 0 && cost > 0) {
      if (before === cap && cost <= limit) settle(cells, at, terms, now, cap);
      return denied(terms, before, cost, over);
    }
    const after = before + cost * unit;
    if (cost > 0) settle(cells, at, terms, now, after);
    const remaining = Math.floor((cap - after) / unit);
    const nextAfterMs = untilNext(terms, after, remaining);
    return { allowed: true, policy, limit, remaining, resetAfterMs: Math.ceil(after / p), nextAfterMs };
  },
};

function denied(terms: Terms, used: number, cost: number, over: number): Decision {
  const { name: policy, limit, unit, cap, p } = terms;
  const remaining = Math.floor((cap - used) / unit);
  const resetAfterMs = Math.ceil(used / p);
  const nextAfterMs = untilNext(terms, used, remaining);
  const retryAfterMs = cost > limit ? null : Math.ceil(over / p);
  return { allowed: false, policy, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs };
}

function untilNext({ unit, cap, p }: Terms, used: number, remaining: number): number {
  return used > 0 ? Math.ceil((used - (cap - (remaining + 1) * unit)) / p) : 0;
}

function used(cells: Cells, at: number, { p, cap, windowMs }: Terms, now: number): number {
  const ahead = (cells[at] as number) - now;
  if (ahead < 0) return 0;
  if (ahead > windowMs) return cap;
  const part = cells[at + 1] as number;
  // The part may have been written under another rate: it is never worth a whole millisecond.
  const used = ahead * p + (part < p ? part : p - 1);
  return used < cap ? used : cap;
}

/** Writes what is in use as the instant at which it will have been given back. */
function settle(cells: Cells, at: number, { p }: Terms, now: number, used: number): void {
  const whole = Math.floor(used / p);
  cells[at] = now + whole;
  cells[at + 1] = used - whole * p;
}
