/**
 * Fixed window: a counter that starts again at every multiple of the window. Cheap and easy to
 * explain; around the edge of two windows up to twice the limit passes in one window's time.
 */
import type { Terms } from "../core/terms.ts";
import { type Algorithm, type Cells, windowStart } from "./algorithm.ts";

/** Cells: the start of the window, and what was taken in it. */
export const fixedWindow: Algorithm = {
  name: "fixed-window",
  width: 2,

  used(cells, at, { limit, windowMs }, now) {
    const over = now >= (cells[at] as number) + windowMs;
    return over ? 0 : Math.min(cells[at + 1] as number, limit);
  },

  wait: untilEnd,
  reset: untilEnd,
  ahead: (cells, at, _terms, now) => (cells[at] as number) > now,

  add(cells, at, terms, now, used, cost) {
    cells[at] = startAt(cells, at, terms, now);
    cells[at + 1] = used + cost;
  },

  giveBack(cells, at, terms, now, used, cost) {
    cells[at] = startAt(cells, at, terms, now);
    cells[at + 1] = Math.max(0, used - cost);
  },
};

/** The window's start. One from the future becomes the window of now, so that it ends in time. */
function startAt(cells: Cells, at: number, terms: Terms, now: number): number {
  const start = cells[at] as number;
  return start <= now && now < start + terms.windowMs ? start : windowStart(terms, now);
}

function untilEnd(cells: Cells, at: number, terms: Terms, now: number): number {
  return startAt(cells, at, terms, now) + terms.windowMs - now;
}
