/**
 * Sliding window: the counter of this window and of the one before, which fades as this one goes on.
 * Two numbers smooth the edge that a fixed window has; the error is that the past is taken as even.
 * All is counted in 1/windowMs of a unit, so that the fading weight is a whole number.
 */
import type { Decision } from "../core/decision.ts";
import type { Terms } from "../core/terms.ts";
import { type Algorithm, allow, type Cells, deny, windowStart } from "./algorithm.ts";

/** Cells: the start of this window, what was taken in the one before, what was taken in this one. */
export const slidingWindow: Algorithm = {
  name: "sliding-window",
  width: 3,

  take(cells, at, terms, cost, now) {
    const w = view(cells, at, terms, now);
    if (!fits(w, terms, cost)) {
      if (w.healed && cost <= terms.limit) write(cells, at, w);
      return denied(w, terms, cost);
    }
    if (cost > 0) {
      w.current += cost;
      write(cells, at, w);
    }
    return allowed(w, terms);
  },

  peek(cells, at, terms, cost, now) {
    const w = view(cells, at, terms, now);
    return fits(w, terms, cost) ? allowed(w, terms) : denied(w, terms, cost);
  },

  fits(cells, at, terms, cost, now) {
    return fits(view(cells, at, terms, now), terms, cost);
  },

  refund(cells, at, terms, cost, now) {
    const w = view(cells, at, terms, now);
    if (used(w, terms) === 0) return;
    const fromCurrent = Math.min(cost, w.current);
    w.current -= fromCurrent;
    w.previous = Math.max(0, w.previous - (cost - fromCurrent));
    write(cells, at, w);
  },

  usage(cells, at, terms, now) {
    return Math.min(1, used(view(cells, at, terms, now), terms) / (terms.limit * terms.windowMs));
  },
};

/** The two counters as they stand at `now`. */
interface View {
  start: number;
  previous: number;
  current: number;
  /** Milliseconds left of this window: the weight of the one before. */
  left: number;
  /** The state lay in the future. */
  healed: boolean;
}

function view(cells: Cells, at: number, terms: Terms, now: number): View {
  const { limit, windowMs } = terms;
  let start = cells[at] as number;
  let previous = Math.min(cells[at + 1] as number, limit);
  let current = Math.min(cells[at + 2] as number, limit);
  const healed = start > now;
  if (healed) {
    // The clock went back. All that counts is taken as spent in the window of now: nothing is given
    // back by the step, and nothing is held longer than two windows.
    current = Math.min(limit, previous + current);
    previous = 0;
    start = windowStart(terms, now);
  } else if (now >= start + 2 * windowMs) {
    previous = 0;
    current = 0;
    start = windowStart(terms, now);
  } else if (now >= start + windowMs) {
    previous = current;
    current = 0;
    start += windowMs;
  }
  return { start, previous, current, left: start + windowMs - now, healed };
}

function write(cells: Cells, at: number, { start, previous, current }: View): void {
  cells[at] = start;
  cells[at + 1] = previous;
  cells[at + 2] = current;
}

function used({ previous, current, left }: View, { windowMs }: Terms): number {
  return previous * left + current * windowMs;
}

function fits(w: View, terms: Terms, cost: number): boolean {
  return used(w, terms) + cost * terms.windowMs <= terms.limit * terms.windowMs;
}

/** Milliseconds until `cost`, which does not fit now, will. */
function waitFor({ previous, current, left }: View, { limit, windowMs }: Terms, cost: number): number {
  const room = (limit - current - cost) * windowMs;
  // In this window, once the one before has faded enough; else in the next, once this one has.
  if (room >= 0) return Math.ceil((previous * left - room) / previous);
  return left + Math.ceil(((current + cost - limit) * windowMs) / current);
}

function remaining(w: View, terms: Terms): number {
  return Math.max(0, Math.floor((terms.limit * terms.windowMs - used(w, terms)) / terms.windowMs));
}

function untilReset({ previous, current, left }: View, { windowMs }: Terms): number {
  return current > 0 ? left + windowMs : previous > 0 ? left : 0;
}

function allowed(w: View, terms: Terms): Decision {
  const rest = remaining(w, terms);
  return allow(terms, rest, untilReset(w, terms), rest === terms.limit ? 0 : waitFor(w, terms, rest + 1));
}

function denied(w: View, terms: Terms, cost: number): Decision {
  const rest = remaining(w, terms);
  const next = rest === terms.limit ? 0 : waitFor(w, terms, rest + 1);
  const retry = cost > terms.limit ? null : waitFor(w, terms, cost);
  return deny(terms, rest, untilReset(w, terms), next, retry);
}
