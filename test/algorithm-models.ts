/** The state of each algorithm in BigInt arithmetic: what is in use at an instant, and how charges change it. */
import type { RateAlgorithm } from "../src/testing/subject.ts";

/** A policy in exact numbers. */
export interface Rule {
  readonly algorithm: RateAlgorithm;
  /** The capacity of a bucket or the limit of a window. */
  readonly limit: bigint;
  /** The window, or the fill time of a bucket. */
  readonly windowMs: bigint;
  /** For a bucket: `p` tokens every `q` ms, a reduced fraction. */
  readonly p: bigint;
  readonly q: bigint;
}

/** The state of an algorithm and its operations. Use is counted in parts; a cost of 1 is `part(rule)` parts. */
export interface AlgorithmModel<S> {
  readonly empty: S;
  part(rule: Rule): bigint;
  /** The stored state as of `now`, clamped if it is dated in the future. */
  read(stored: S, rule: Rule, now: bigint): S;
  isInFuture(stored: S, rule: Rule, now: bigint): boolean;
  /** Parts in use at `at`, which is not before the time of `read`, without further charges. */
  usedAt(seen: S, rule: Rule, at: bigint): bigint;
  /** An instant at which no part is in use. */
  emptyAt(seen: S, rule: Rule, now: bigint): bigint;
  add(seen: S, rule: Rule, cost: bigint, now: bigint): S;
  refund(seen: S, rule: Rule, cost: bigint): S;
  /** Refunds one grant, which ends after `now`: at most the part still in use. */
  refundGrant(seen: S, rule: Rule, cost: bigint, end: bigint, now: bigint): S;
}

/** Parts missing from a full bucket at an instant, refilled at `p` per ms. */
interface Level {
  missing: bigint;
  at: bigint;
  p: bigint;
}

const bucket: AlgorithmModel<Level> = {
  empty: { missing: 0n, at: 0n, p: 1n },
  part: ({ q }) => q,
  read(stored, rule, now) {
    const missing = clamp(missingAt(stored, rule, now), rule.limit * rule.q);
    return { missing, at: now, p: rule.p };
  },
  isInFuture: (stored, rule, now) => missingAt(stored, rule, now) > rule.limit * rule.q,
  usedAt(seen, { p }, at) {
    const missing = seen.missing - (at - seen.at) * p;
    return missing > 0n ? missing : 0n;
  },
  emptyAt: (_seen, rule, now) => now + rule.windowMs,
  add: (seen, rule, cost) => ({ ...seen, missing: seen.missing + cost * rule.q }),
  refund: (seen, rule, cost) => ({ ...seen, missing: clamp(seen.missing - cost * rule.q, seen.missing) }),
  refundGrant(seen, rule, cost, end, now) {
    // Grants drain in order: the parts that drain until the end of this grant are those still in use.
    const refunded = min(cost * rule.q, (end - now) * rule.p);
    return { ...seen, missing: clamp(seen.missing - refunded, seen.missing) };
  },
};

/** Missing parts at `now`, which may be before the write. Not yet clamped. */
function missingAt({ missing, at, p }: Level, rule: Rule, now: bigint): bigint {
  // State of a plan with another rate is rounded up to whole parts: no tokens are created.
  const rest = (missing % p) * rule.p;
  return (at + missing / p - now) * rule.p + (rest + p - 1n) / p;
}

/** The count of the window that started at `start`. */
interface Counter {
  start: bigint;
  count: bigint;
}

const fixedWindow: AlgorithmModel<Counter> = {
  empty: { start: 0n, count: 0n },
  part: () => 1n,
  read({ start, count }, { windowMs }, now) {
    if (now >= start + windowMs) return { start: alignedStart(now, windowMs), count: 0n };
    return { start: min(start, now), count };
  },
  isInFuture: ({ start }, _rule, now) => start > now,
  // A plan with a higher limit may have counted more than this limit.
  usedAt: ({ start, count }, { limit, windowMs }, at) => (at < start + windowMs ? min(count, limit) : 0n),
  emptyAt: ({ start }, { windowMs }) => start + windowMs,
  add: ({ start, count }, _rule, cost) => ({ start, count: count + cost }),
  refund: ({ start, count }, _rule, cost) => ({ start, count: clamp(count - cost, count) }),
  refundGrant: ({ start, count }, _rule, cost) => ({ start, count: clamp(count - cost, count) }),
};

/** The counts of the window that started at `start` and of the previous one. */
interface TwoCounters {
  start: bigint;
  previous: bigint;
  current: bigint;
}

const slidingWindow: AlgorithmModel<TwoCounters> = {
  empty: { start: 0n, previous: 0n, current: 0n },
  part: ({ windowMs }) => windowMs,
  read({ start, previous, current }, { windowMs }, now) {
    // After a clock step back, everything counts in the current window: nothing is refunded by it, and nothing counts for
    // longer than two windows.
    if (start > now) return { start: alignedStart(now, windowMs), previous: 0n, current: previous + current };
    if (now < start + windowMs) return { start, previous, current };
    if (now < start + 2n * windowMs) return { start: start + windowMs, previous: current, current: 0n };
    return { start: alignedStart(now, windowMs), previous: 0n, current: 0n };
  },
  isInFuture: ({ start }, _rule, now) => start > now,
  usedAt({ start, previous, current }, { limit, windowMs }, at) {
    const elapsed = at - start;
    const [before, now] = [min(previous, limit), min(current, limit)];
    if (elapsed < windowMs) return before * (windowMs - elapsed) + now * windowMs;
    return elapsed < 2n * windowMs ? now * (2n * windowMs - elapsed) : 0n;
  },
  emptyAt: ({ start }, { windowMs }) => start + 2n * windowMs,
  add: (seen, _rule, cost) => ({ ...seen, current: seen.current + cost }),
  refund({ start, previous, current }, _rule, cost) {
    const rest = cost > current ? cost - current : 0n;
    return { start, previous: clamp(previous - rest, previous), current: clamp(current - cost, current) };
  },
  refundGrant({ start, previous, current }, { windowMs }, cost, end) {
    if (end > start + windowMs) return { start, previous, current: clamp(current - cost, current) };
    return { start, previous: clamp(previous - cost, previous), current };
  },
};

/** Every grant, oldest first. It counts until `end`. */
type Log = readonly { end: bigint; cost: bigint }[];

const slidingLog: AlgorithmModel<Log> = {
  empty: [],
  part: () => 1n,
  read(stored, { windowMs }, now) {
    const live = stored.filter(({ end }) => end > now);
    return live.map(({ end, cost }) => ({ end: min(end, now + windowMs), cost }));
  },
  isInFuture: (stored, { windowMs }, now) => stored.some(({ end }) => end > now + windowMs),
  usedAt(seen, _rule, at) {
    let used = 0n;
    for (const { end, cost } of seen) if (end > at) used += cost;
    return used;
  },
  emptyAt: (_seen, { windowMs }, now) => now + windowMs,
  add: (seen, { windowMs }, cost, now) => [...seen, { end: now + windowMs, cost }],
  refund(seen, _rule, cost) {
    let left = cost;
    const kept = seen.toReversed().map((grant) => {
      const refunded = min(left, grant.cost);
      left -= refunded;
      return { end: grant.end, cost: grant.cost - refunded };
    });
    return kept.reverse().filter((grant) => grant.cost > 0n);
  },
  refundGrant(seen, { windowMs }, cost, end, now) {
    let left = cost;
    const kept = seen.map((grant) => {
      if (grant.end !== min(end, now + windowMs)) return grant;
      const refunded = min(left, grant.cost);
      left -= refunded;
      return { end: grant.end, cost: grant.cost - refunded };
    });
    return kept.filter((grant) => grant.cost > 0n);
  },
};

/** The model of every algorithm. */
export const ALGORITHM_MODELS: Record<RateAlgorithm, AlgorithmModel<unknown>> = {
  "token-bucket": bucket,
  "leaky-bucket": bucket,
  "fixed-window": fixedWindow,
  "sliding-window": slidingWindow,
  "sliding-log": slidingLog,
};

/** Windows start at multiples of their length. */
function alignedStart(now: bigint, windowMs: bigint): bigint {
  return now - (now % windowMs);
}

function min(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

/** Limits a value to the range from 0 to `most`. */
function clamp(value: bigint, most: bigint): bigint {
  return value < 0n ? 0n : min(value, most);
}
