/**
 * A slow and exact reference implementation of every decision: BigInt arithmetic, and waits found by binary search
 * instead of a formula.
 */
import type { Mode } from "sluice";
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

/** A decision without the policy's name. */
export interface DecisionNumbers {
  allowed: boolean;
  limit: number;
  remaining: number;
  resetAfterMs: number;
  nextAfterMs: number;
  /** Only if denied. */
  retryAfterMs?: number | null;
  /** Only if allowed by a leaky bucket. */
  delayMs?: number;
}

/** One key under one algorithm. */
export interface Model {
  /** Charges or refunds the key and returns the decision. */
  step(mode: Mode, rule: Rule, cost: number, now: number, grantEndsAt?: number): DecisionNumbers;
  /** Whether the stored state is dated in the future. */
  isInFuture(rule: Rule, now: number): boolean;
  /** Whether the key has stored state. */
  isStored(): boolean;
}

/** A bucket that refills `tokens` every `everyMs`. */
export function bucketRule(
  algorithm: "token-bucket" | "leaky-bucket",
  capacity: bigint,
  tokens: bigint,
  everyMs: bigint,
): Rule {
  let [a, b] = [tokens, everyMs];
  while (b > 0n) [a, b] = [b, a % b];
  const p = tokens / a;
  const q = everyMs / a;
  return { algorithm, limit: capacity, windowMs: (capacity * q + p - 1n) / p, p, q };
}

/** A limit per window. */
export function windowRule(
  algorithm: "fixed-window" | "sliding-window" | "sliding-log",
  limit: bigint,
  windowMs: bigint,
): Rule {
  return { algorithm, limit, windowMs, p: 0n, q: 0n };
}

/** Creates the model of a new key. */
export function createModel(algorithm: RateAlgorithm): Model {
  return MODELS[algorithm]();
}

/** The state of an algorithm and its operations. Use is counted in parts; a cost of 1 is `part(rule)` parts. */
interface AlgorithmModel<S> {
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

function createModelOf<S>(algorithm: AlgorithmModel<S>, hasDelay = false): Model {
  let stored: S | undefined;

  /** Milliseconds until at most `most` parts are in use. Use never grows by itself, so binary search finds the first. */
  function waitUntil(most: bigint, seen: S, rule: Rule, now: bigint): number {
    if (algorithm.usedAt(seen, rule, now) <= most) return 0;
    let tooEarly = now;
    let lateEnough = algorithm.emptyAt(seen, rule, now);
    while (lateEnough - tooEarly > 1n) {
      const middle = (tooEarly + lateEnough) >> 1n;
      if (algorithm.usedAt(seen, rule, middle) <= most) lateEnough = middle;
      else tooEarly = middle;
    }
    return Number(lateEnough - now);
  }

  function numbersOf(allowed: boolean, seen: S, rule: Rule, now: bigint): DecisionNumbers {
    const part = algorithm.part(rule);
    const free = rule.limit * part - algorithm.usedAt(seen, rule, now);
    const remaining = free > 0n ? free / part : 0n;
    const full = free === rule.limit * part;
    return {
      allowed,
      limit: Number(rule.limit),
      remaining: Number(remaining),
      resetAfterMs: waitUntil(0n, seen, rule, now),
      nextAfterMs: full ? 0 : waitUntil((rule.limit - remaining - 1n) * part, seen, rule, now),
    };
  }

  return {
    step(mode, rule, cost, nowMs, grantEndsAt) {
      const now = BigInt(nowMs);
      const spent = BigInt(cost);
      const state = stored ?? algorithm.empty;
      const seen = algorithm.read(state, rule, now);
      if (mode === "refund") {
        let after = seen;
        // A bucket that is not in use is not written: its state would be dated in the future after a clock step back.
        const hasEnded = grantEndsAt !== undefined && grantEndsAt <= nowMs;
        if (algorithm.usedAt(seen, rule, now) > 0n && !hasEnded) {
          after =
            grantEndsAt === undefined
              ? algorithm.refund(seen, rule, spent)
              : algorithm.refundGrant(seen, rule, spent, BigInt(grantEndsAt), now);
          // A full bucket equals a new one, also after a clock step back.
          stored = algorithm.usedAt(after, rule, now) > 0n ? after : algorithm.empty;
        }
        const decision = numbersOf(true, after, rule, now);
        if (hasDelay) decision.delayMs = decision.resetAfterMs;
        return decision;
      }
      const part = algorithm.part(rule);
      const most = (rule.limit - spent) * part;
      if (spent > 0n && algorithm.usedAt(seen, rule, now) > most) {
        const fits = spent <= rule.limit;
        // State dated in the future is written back clamped. Otherwise it would stay in the future.
        if (mode === "take" && fits && algorithm.isInFuture(state, rule, now)) stored = seen;
        const decision = numbersOf(false, seen, rule, now);
        decision.retryAfterMs = fits ? waitUntil(most, seen, rule, now) : null;
        return decision;
      }
      let after = seen;
      if (mode === "take" && spent > 0n) stored = after = algorithm.add(seen, rule, spent, now);
      const decision = numbersOf(true, after, rule, now);
      // An admitted call waits until the queue before it has drained.
      if (hasDelay) decision.delayMs = waitUntil(0n, seen, rule, now);
      return decision;
    },

    isInFuture: (rule, now) => stored !== undefined && algorithm.isInFuture(stored, rule, BigInt(now)),
    isStored: () => stored !== undefined,
  };
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

const MODELS: Record<RateAlgorithm, () => Model> = {
  "token-bucket": () => createModelOf(bucket),
  "leaky-bucket": () => createModelOf(bucket, true),
  "fixed-window": () => createModelOf(fixedWindow),
  "sliding-window": () => createModelOf(slidingWindow),
  "sliding-log": () => createModelOf(slidingLog),
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
