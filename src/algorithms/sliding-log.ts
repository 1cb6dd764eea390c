/**
 * Sliding log: remembers every grant until it is a window old, so that no window of any start holds
 * more than the limit. Exact, and the only one whose state grows with use.
 */
import type { Terms } from "../core/terms.ts";
import { Algorithm } from "./algorithm.ts";

/** Cell: a list of the sum of all costs in it, then pairs of (end, cost), oldest first. */
export const slidingLog: Algorithm = new Algorithm({
  name: "sliding-log",
  width: 1,
  list: true,

  used(cells, at, _terms, now) {
    const log = cells[at] as number[];
    if (log.length === 0) return 0;
    let used = log[SUM] as number;
    for (let i = FIRST; i < log.length && (log[i] as number) <= now; i += 2) used -= log[i + 1] as number;
    return used;
  },

  wait(cells, at, terms, now, amount) {
    const log = cells[at] as number[];
    let i = firstLive(log, now);
    for (let lacking = amount; lacking > (log[i + 1] as number); i += 2) lacking -= log[i + 1] as number;
    return untilEnd(log, i, terms, now);
  },

  reset: (cells, at, terms, now) => untilEnd(cells[at] as number[], (cells[at] as number[]).length - 2, terms, now),

  ahead(cells, at, { windowMs }, now) {
    const log = cells[at] as number[];
    return (log[log.length - 2] as number) > now + windowMs;
  },

  add(cells, at, terms, now, used, cost) {
    const log = tidy(cells[at] as number[], terms, now);
    const end = now + terms.windowMs;
    log[SUM] = used + cost;
    // Grants of one millisecond are one.
    if (log[log.length - 2] === end) log[log.length - 1] = (log[log.length - 1] as number) + cost;
    else if (cost > 0) log.push(end, cost);
  },

  giveBack(cells, at, terms, now, used, cost) {
    const log = tidy(cells[at] as number[], terms, now);
    let left = Math.min(cost, used);
    log[SUM] = used - left;
    // Newest first: what was just taken is what is given back.
    while (left > 0) {
      const newest = log[log.length - 1] as number;
      if (newest > left) log[log.length - 1] = newest - left;
      else log.length -= 2;
      left = Math.max(0, left - newest);
    }
  },
});

const SUM = 0;
const FIRST = 1;

/** Where the oldest grant is that still counts. */
function firstLive(log: number[], now: number): number {
  let i = FIRST;
  while (i < log.length && (log[i] as number) <= now) i += 2;
  return i;
}

/** Forgets grants that have ended; those that end later than a grant of now would are as old as now. */
function tidy(log: number[], { windowMs }: Terms, now: number): number[] {
  const ended = firstLive(log, now) - FIRST;
  if (ended > 0) {
    log.copyWithin(FIRST, FIRST + ended);
    log.length -= ended;
  }
  for (let i = log.length - 2; i >= FIRST && (log[i] as number) > now + windowMs; i -= 2) log[i] = now + windowMs;
  return log;
}

/** Milliseconds until the grant at `i` ends. */
function untilEnd(log: number[], i: number, { windowMs }: Terms, now: number): number {
  return Math.min((log[i] as number) - now, windowMs);
}
