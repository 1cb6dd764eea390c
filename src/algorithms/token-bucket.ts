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
  wait: (_cells, _at, terms, _now, amount) => untilBack(terms, amount),
  reset: (_cells, _at, terms, _now, used) => untilBack(terms, used),
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
    const before = used(cells, at, terms, now);
    const amount = cost * terms.unit;
    const over = before - (terms.cap - amount);
    if (over > 0 && cost > 0) return refuse(cells, at, terms, cost, now, before, over);
    const after = before + amount;
    if (cost > 0) settle(cells, at, terms, now, after);
    const remaining = Math.floor((terms.cap - after) / terms.unit);
    return {
      allowed: true,
      policy: terms.name,
      limit: terms.limit,
      remaining,
      resetAfterMs: untilBack(terms, after),
      nextAfterMs: untilNext(terms, after, remaining),
    };
  },
};

function refuse(
  cells: Cells,
  at: number,
  terms: Terms,
  cost: number,
  now: number,
  used: number,
  over: number,
): Decision {
  const { name: policy, limit, unit, cap } = terms;
  if (used === cap && cost <= limit) settle(cells, at, terms, now, cap);
  const remaining = Math.floor((cap - used) / unit);
  const resetAfterMs = untilBack(terms, used);
  const nextAfterMs = untilNext(terms, used, remaining);
  const retryAfterMs = cost > limit ? null : untilBack(terms, over);
  return { allowed: false, policy, limit, remaining, resetAfterMs, nextAfterMs, retryAfterMs };
}

function untilNext(terms: Terms, used: number, remaining: number): number {
  return used > 0 ? untilBack(terms, used - (terms.cap - (remaining + 1) * terms.unit)) : 0;
}

/** Milliseconds until `amount` is given back. Most rates are one unit per millisecond, and need no division. */
function untilBack(terms: Terms, amount: number): number {
  return terms.p === 1 ? amount : Math.ceil(amount / terms.p);
}

// No patterns as parameters from here on: they are code as well, and engines inline only so much of it.

function used(cells: Cells, at: number, terms: Terms, now: number): number {
  const ahead = (cells[at] as number) - now;
  if (ahead < 0) return 0;
  if (ahead > terms.windowMs) return terms.cap;
  const part = cells[at + 1] as number;
  // The part may have been written under another rate: it is never worth a whole millisecond.
  const used = ahead * terms.p + (part < terms.p ? part : terms.p - 1);
  return used < terms.cap ? used : terms.cap;
}

/** Writes what is in use as the instant at which it will have been given back. */
function settle(cells: Cells, at: number, terms: Terms, now: number, used: number): void {
  const whole = terms.p === 1 ? used : Math.floor(used / terms.p);
  cells[at] = now + whole;
  cells[at + 1] = used - whole * terms.p;
}
