/**
 * Sliding log: remembers every grant until it is a window old, so that no window of any start holds
 * more than the limit. Exact, and the only one whose state grows with use.
 */
import type { Decision } from "../core/decision.ts";
import type { Terms } from "../core/terms.ts";
import { type Algorithm, allow, deny } from "./algorithm.ts";

/** Cells: the sum of all costs kept, where the oldest is, then pairs of (end, cost), oldest first. */
export const slidingLog: Algorithm = {
  name: "sliding-log",
  width: 0,

  take(cells, _at, terms, cost, now) {
    const list = cells as number[];
    const first = firstLive(list, now);
    const used = usedFrom(list, first);
    if (used + cost > terms.limit) {
      if (cost <= terms.limit) heal(list, terms, now);
      return denied(list, first, terms, cost, now);
    }
    if (cost === 0) return allowed(list, first, used, terms, now);
    drop(list, first, used);
    heal(list, terms, now);
    append(list, now + terms.windowMs, cost);
    return allowed(list, list[HEAD] as number, used + cost, terms, now);
  },

  peek(cells, _at, terms, cost, now) {
    const list = cells as number[];
    const first = firstLive(list, now);
    const used = usedFrom(list, first);
    return used + cost > terms.limit ? denied(list, first, terms, cost, now) : allowed(list, first, used, terms, now);
  },

  fits(cells, _at, terms, cost, now) {
    const list = cells as number[];
    return usedFrom(list, firstLive(list, now)) + cost <= terms.limit;
  },

  refund(cells, _at, terms, cost, now) {
    const list = cells as number[];
    const first = firstLive(list, now);
    if (first >= list.length) return;
    drop(list, first, usedFrom(list, first));
    heal(list, terms, now);
    // Newest first: what was just taken is what is given back.
    let left = cost;
    while (left > 0 && list.length > (list[HEAD] as number)) {
      const last = list.length - 1;
      const given = Math.min(left, list[last] as number);
      list[last] = (list[last] as number) - given;
      list[SUM] = (list[SUM] as number) - given;
      left -= given;
      if (list[last] === 0) list.length -= 2;
    }
  },

  usage(cells, _at, terms, now) {
    const list = cells as number[];
    return Math.min(1, usedFrom(list, firstLive(list, now)) / terms.limit);
  },
};

const SUM = 0;
const HEAD = 1;
const PAIRS = 2;

/** Where the oldest grant is that still counts. */
function firstLive(list: number[], now: number): number {
  let first = list.length === 0 ? PAIRS : (list[HEAD] as number);
  while (first < list.length && (list[first] as number) <= now) first += 2;
  return first;
}

function usedFrom(list: number[], first: number): number {
  if (list.length === 0) return 0;
  let used = list[SUM] as number;
  for (let i = list[HEAD] as number; i < first; i += 2) used -= list[i + 1] as number;
  return used;
}

/** Forgets what no longer counts; moves the rest down only when half of the list is behind it. */
function drop(list: number[], first: number, used: number): void {
  if (list.length === 0) list.push(0, PAIRS);
  let head = first;
  if (head > PAIRS && head * 2 > list.length) {
    list.copyWithin(PAIRS, head);
    list.length -= head - PAIRS;
    head = PAIRS;
  }
  list[SUM] = used;
  list[HEAD] = head;
}

/** Grants that end later than a grant of now would come from the future; they are as old as now. */
function heal(list: number[], terms: Terms, now: number): void {
  const latest = now + terms.windowMs;
  if (list.length <= PAIRS || (list[list.length - 2] as number) <= latest) return;
  let cost = 0;
  while (list.length > (list[HEAD] as number) && (list[list.length - 2] as number) > latest) {
    cost += list[list.length - 1] as number;
    list.length -= 2;
  }
  list[SUM] = (list[SUM] as number) - cost;
  append(list, latest, cost);
}

/** Adds a grant; those of one millisecond are one. */
function append(list: number[], end: number, cost: number): void {
  if (list.length > (list[HEAD] as number) && list[list.length - 2] === end) {
    list[list.length - 1] = (list[list.length - 1] as number) + cost;
  } else {
    list.push(end, cost);
  }
  list[SUM] = (list[SUM] as number) + cost;
}

/** Milliseconds until the grant at `i` ends. */
function endOf(list: number[], i: number, terms: Terms, now: number): number {
  return Math.min((list[i] as number) - now, terms.windowMs);
}

/** Milliseconds until `cost`, which does not fit now, will: until enough of the oldest have ended. */
function waitFor(list: number[], first: number, terms: Terms, cost: number, now: number): number {
  let lacking = usedFrom(list, first) + cost - terms.limit;
  let i = first;
  for (; lacking > (list[i + 1] as number); i += 2) lacking -= list[i + 1] as number;
  return endOf(list, i, terms, now);
}

function allowed(list: number[], first: number, used: number, terms: Terms, now: number): Decision {
  if (used === 0) return allow(terms, terms.limit, 0, 0);
  const reset = endOf(list, list.length - 2, terms, now);
  return allow(terms, terms.limit - used, reset, endOf(list, first, terms, now));
}

function denied(list: number[], first: number, terms: Terms, cost: number, now: number): Decision {
  const used = usedFrom(list, first);
  const rest = Math.max(0, terms.limit - used);
  const reset = used === 0 ? 0 : endOf(list, list.length - 2, terms, now);
  const next = used === 0 ? 0 : waitFor(list, first, terms, rest + 1, now);
  return deny(terms, rest, reset, next, cost > terms.limit ? null : waitFor(list, first, terms, cost, now));
}
