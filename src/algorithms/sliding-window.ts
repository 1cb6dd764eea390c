/**
 * Sliding window: the counter of this window and of the one before, which fades as this one goes on.
 * Two numbers smooth the edge that a fixed window has; the error is that the past is taken as even.
 * All is counted in 1/windowMs of a unit, so that the fading weight is a whole number.
 */
import type { Terms } from "../core/terms.ts";
import { Algorithm, type Cells, windowStart } from "./algorithm.ts";

/** Cells: the start of this window, what was taken in the one before, what was taken in this one. */
export const slidingWindow: Algorithm = new Algorithm({
  name: "sliding-window",
  width: 3,

  used(cells, at, terms, now) {
    const { previous, current, left } = viewAt(cells, at, terms, now);
    return previous * left + current * terms.windowMs;
  },

  wait(cells, at, terms, now, amount) {
    const { previous, current, left } = viewAt(cells, at, terms, now);
    // In this window, while the one before fades; what is lacking then, in the next, while this one fades.
    const fading = previous * left;
    return amount <= fading ? Math.ceil(amount / previous) : left + Math.ceil((amount - fading) / current);
  },

  reset(cells, at, terms, now) {
    const { current, left } = viewAt(cells, at, terms, now);
    return current > 0 ? left + terms.windowMs : left;
  },

  ahead: (cells, at, _terms, now) => (cells[at] as number) > now,

  add(cells, at, terms, now, _used, cost) {
    const { start, previous, current } = viewAt(cells, at, terms, now);
    write(cells, at, start, previous, current + cost);
  },

  giveBack(cells, at, terms, now, _used, cost) {
    const { start, previous, current } = viewAt(cells, at, terms, now);
    const older = Math.max(0, cost - current);
    write(cells, at, start, Math.max(0, previous - older), Math.max(0, current - cost));
  },
});

/** The two counters as they stand at `now`. */
interface View {
  start: number;
  previous: number;
  current: number;
  /** Milliseconds left of this window: the weight of the one before. */
  left: number;
}

function viewAt(cells: Cells, at: number, terms: Terms, now: number): View {
  const { limit, windowMs } = terms;
  let start = cells[at] as number;
  let previous = Math.min(cells[at + 1] as number, limit);
  let current = Math.min(cells[at + 2] as number, limit);
  if (start > now) {
    // The clock went back. All that counts is taken as spent in the window of now: nothing is given
    // back by the step, and nothing is held longer than two windows.
    current = Math.min(limit, previous + current);
    previous = 0;
    start = windowStart(terms, now);
  } else if (now >= start + 2 * windowMs) {
    previous = current = 0;
    start = windowStart(terms, now);
  } else if (now >= start + windowMs) {
    previous = current;
    current = 0;
    start += windowMs;
  }
  return { start, previous, current, left: start + windowMs - now };
}

function write(cells: Cells, at: number, start: number, previous: number, current: number): void {
  cells[at] = start;
  cells[at + 1] = previous;
  cells[at + 2] = current;
}
