/**
 * Fixed window: a counter that starts again at every multiple of the window. Cheap and easy to
 * explain; around the edge of two windows up to twice the limit passes in one window's time.
 */
import type { Terms } from "../core/terms.ts";
import { type Algorithm, allow, type Cells, deny, windowStart } from "./algorithm.ts";

/** Cells: the start of the window, and what was taken in it. */
export const fixedWindow: Algorithm = {
  name: "fixed-window",
  width: 2,

  take(cells, at, terms, cost, now) {
    const taken = takenAt(cells, at, terms, now);
    const start = startAt(cells, at, terms, now);
    const end = start + terms.windowMs - now;
    if (taken + cost > terms.limit) {
      if ((cells[at] as number) > now && cost <= terms.limit) cells[at] = start;
      return denied(terms, taken, cost, end);
    }
    if (cost === 0) return allowed(terms, taken, end);
    cells[at] = start;
    cells[at + 1] = taken + cost;
    return allowed(terms, taken + cost, end);
  },

  peek(cells, at, terms, cost, now) {
    const taken = takenAt(cells, at, terms, now);
    const end = startAt(cells, at, terms, now) + terms.windowMs - now;
    return taken + cost > terms.limit ? denied(terms, taken, cost, end) : allowed(terms, taken, end);
  },

  fits(cells, at, terms, cost, now) {
    return takenAt(cells, at, terms, now) + cost <= terms.limit;
  },

  refund(cells, at, terms, cost, now) {
    const taken = takenAt(cells, at, terms, now);
    if (taken === 0) return;
    cells[at] = startAt(cells, at, terms, now);
    cells[at + 1] = Math.max(0, taken - cost);
  },

  usage(cells, at, terms, now) {
    return takenAt(cells, at, terms, now) / terms.limit;
  },
};

/** The window's start. One from the future becomes the window of now, so that it ends in time. */
function startAt(cells: Cells, at: number, terms: Terms, now: number): number {
  const start = cells[at] as number;
  return start <= now && now < start + terms.windowMs ? start : windowStart(terms, now);
}

function takenAt(cells: Cells, at: number, terms: Terms, now: number): number {
  const over = now >= (cells[at] as number) + terms.windowMs;
  return over ? 0 : Math.min(cells[at + 1] as number, terms.limit);
}

function allowed(terms: Terms, taken: number, end: number) {
  const wait = taken > 0 ? end : 0;
  return allow(terms, terms.limit - taken, wait, wait);
}

function denied(terms: Terms, taken: number, cost: number, end: number) {
  const wait = taken > 0 ? end : 0;
  return deny(terms, terms.limit - taken, wait, wait, cost > terms.limit ? null : end);
}
