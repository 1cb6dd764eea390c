/**
 * A second way to every figure of a decision, slow and exact: whole numbers without end (BigInt), and waits that
 * are searched for by what they mean instead of computed by a formula.
 */
import type { AlgorithmName, Mode } from "sluice";

/** A policy in exact numbers. */
export interface Rule {
  readonly algorithm: AlgorithmName;
  /** The capacity of a bucket, the limit of a window. */
  readonly limit: bigint;
  /** The window; of a bucket, the time it takes to fill. */
  readonly windowMs: bigint;
  /** Of a bucket, in lowest policy: `p` tokens every `q` ms. */
  readonly p: bigint;
  readonly q: bigint;
}

/** What the model answers: a decision without the policy's name. */
export interface Figures {
  allowed: boolean;
  limit: number;
  remaining: number;
  resetAfterMs: number;
  nextAfterMs: number;
  /** Only on a denial. */
  retryAfterMs?: number | null;
  /** Only on what a leaky bucket allows. */
  delayMs?: number;
}

/** One key under one algorithm. */
export interface Model {
  /** Charges the key; a refund is answered with what is left after it. */
  step(mode: Mode, rule: Rule, cost: number, now: number, grantEndsAt?: number): Figures;
  /** Whether what is stored could not have been written by this rule's clock yet. */
  liesInFuture(rule: Rule, now: number): boolean;
  /** Whether anything is stored. */
  isKnown(): boolean;
}

/** A bucket that gives `tokens` every `everyMs`. */
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

/** `limit` in `windowMs`. */
export function windowRule(
  algorithm: "fixed-window" | "sliding-window" | "sliding-log",
  limit: bigint,
  windowMs: bigint,
): Rule {
  return { algorithm, limit, windowMs, p: 0n, q: 0n };
}

/** A key that was never seen. */
export function createModel(algorithm: AlgorithmName): Model {
  return MODELS[algorithm]();
}

/** One way to count. Use is counted in parts: `part(rule)` of them are one unit of cost. */
interface Counting<S> {
  readonly untouched: S;
  part(rule: Rule): bigint;
  /** What is stored as it stands at `now`: nothing in the future. */
  read(stored: S, rule: Rule, now: bigint): S;
  liesInFuture(stored: S, rule: Rule, now: bigint): boolean;
  /** Parts in use at an instant not before the one it was read at, if nobody spends. */
  usedAt(seen: S, rule: Rule, at: bigint): bigint;
  /** An instant from which on nothing of it can be in use. */
  over(seen: S, rule: Rule, now: bigint): bigint;
  add(seen: S, rule: Rule, cost: bigint, now: bigint): S;
  giveBack(seen: S, rule: Rule, cost: bigint): S;
  /** Gives back of one grant, which ends at an instant after `now`, no more than is still in use of it. */
  giveBackOf(seen: S, rule: Rule, cost: bigint, end: bigint, now: bigint): S;
}

function modelOf<S>(counting: Counting<S>, hasDelay = false): Model {
  let stored: S | undefined;

  /** Milliseconds until no more than `most` parts are in use. Use only ever falls, so halving finds the first. */
  function waitUntil(most: bigint, seen: S, rule: Rule, now: bigint): number {
    if (counting.usedAt(seen, rule, now) <= most) return 0;
    let tooEarly = now;
    let lateEnough = counting.over(seen, rule, now);
    while (lateEnough - tooEarly > 1n) {
      const middle = (tooEarly + lateEnough) >> 1n;
      if (counting.usedAt(seen, rule, middle) <= most) lateEnough = middle;
      else tooEarly = middle;
    }
    return Number(lateEnough - now);
  }

  function figures(allowed: boolean, seen: S, rule: Rule, now: bigint): Figures {
    const part = counting.part(rule);
    const room = rule.limit * part - counting.usedAt(seen, rule, now);
    const remaining = room > 0n ? room / part : 0n;
    const full = room === rule.limit * part;
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
      const state = stored ?? counting.untouched;
      const seen = counting.read(state, rule, now);
      if (mode === "refund") {
        let after = seen;
        // Where nothing is in use nothing is written: a fresh state would lie in the future after a step back.
        const isOver = grantEndsAt !== undefined && grantEndsAt <= nowMs;
        if (counting.usedAt(seen, rule, now) > 0n && !isOver) {
          after =
            grantEndsAt === undefined
              ? counting.giveBack(seen, rule, spent)
              : counting.giveBackOf(seen, rule, spent, BigInt(grantEndsAt), now);
          // A full bucket is an untouched one, also to a clock that steps back.
          stored = counting.usedAt(after, rule, now) > 0n ? after : counting.untouched;
        }
        const answer = figures(true, after, rule, now);
        if (hasDelay) answer.delayMs = answer.resetAfterMs;
        return answer;
      }
      const part = counting.part(rule);
      const most = (rule.limit - spent) * part;
      if (spent > 0n && counting.usedAt(seen, rule, now) > most) {
        const fits = spent <= rule.limit;
        // A state from the future is written as it is seen now, or it would stay there.
        if (mode === "take" && fits && counting.liesInFuture(state, rule, now)) stored = seen;
        const answer = figures(false, seen, rule, now);
        answer.retryAfterMs = fits ? waitUntil(most, seen, rule, now) : null;
        return answer;
      }
      let after = seen;
      if (mode === "take" && spent > 0n) stored = after = counting.add(seen, rule, spent, now);
      const answer = figures(true, after, rule, now);
      // What is admitted waits until all that was queued before it is gone.
      if (hasDelay) answer.delayMs = waitUntil(0n, seen, rule, now);
      return answer;
    },

    liesInFuture: (rule, now) => stored !== undefined && counting.liesInFuture(stored, rule, BigInt(now)),
    isKnown: () => stored !== undefined,
  };
}

/** So many parts were missing from a full bucket at an instant, when `p` of them came back every ms. */
interface Level {
  missing: bigint;
  at: bigint;
  p: bigint;
}

const bucket: Counting<Level> = {
  untouched: { missing: 0n, at: 0n, p: 1n },
  part: ({ q }) => q,
  read(stored, rule, now) {
    const missing = clamp(missingAt(stored, rule, now), rule.limit * rule.q);
    return { missing, at: now, p: rule.p };
  },
  liesInFuture: (stored, rule, now) => missingAt(stored, rule, now) > rule.limit * rule.q,
  usedAt(seen, { p }, at) {
    const missing = seen.missing - (at - seen.at) * p;
    return missing > 0n ? missing : 0n;
  },
  over: (_seen, rule, now) => now + rule.windowMs,
  add: (seen, rule, cost) => ({ ...seen, missing: seen.missing + cost * rule.q }),
  giveBack: (seen, rule, cost) => ({ ...seen, missing: clamp(seen.missing - cost * rule.q, seen.missing) }),
  giveBackOf(seen, rule, cost, end, now) {
    // Grants drain one after the other: what drains until the end of this one is what is left of it.
    const given = least(cost * rule.q, (end - now) * rule.p);
    return { ...seen, missing: clamp(seen.missing - given, seen.missing) };
  },
};

/** What is missing at `now`, which may be before or after it was written; not yet between empty and full. */
function missingAt({ missing, at, p }: Level, rule: Rule, now: bigint): bigint {
  // Written by a plan of another rate, it is rounded up to whole parts of this one: nothing is given away.
  const rest = (missing % p) * rule.p;
  return (at + missing / p - now) * rule.p + (rest + p - 1n) / p;
}

/** What was taken in the window that began at `start`. */
interface Counter {
  start: bigint;
  count: bigint;
}

const fixedWindow: Counting<Counter> = {
  untouched: { start: 0n, count: 0n },
  part: () => 1n,
  read({ start, count }, { windowMs }, now) {
    if (now >= start + windowMs) return { start: alignedStart(now, windowMs), count: 0n };
    return { start: least(start, now), count };
  },
  liesInFuture: ({ start }, _rule, now) => start > now,
  // A plan with a higher limit may have counted more than this one allows.
  usedAt: ({ start, count }, { limit, windowMs }, at) => (at < start + windowMs ? least(count, limit) : 0n),
  over: ({ start }, { windowMs }) => start + windowMs,
  add: ({ start, count }, _rule, cost) => ({ start, count: count + cost }),
  giveBack: ({ start, count }, _rule, cost) => ({ start, count: clamp(count - cost, count) }),
  giveBackOf: ({ start, count }, _rule, cost) => ({ start, count: clamp(count - cost, count) }),
};

/** What was taken in the window that began at `start`, and in the one before it. */
interface TwoCounters {
  start: bigint;
  previous: bigint;
  current: bigint;
}

const slidingWindow: Counting<TwoCounters> = {
  untouched: { start: 0n, previous: 0n, current: 0n },
  part: ({ windowMs }) => windowMs,
  read({ start, previous, current }, { windowMs }, now) {
    // After a step back all counts as spent in the window of now: nothing comes back by it, and
    // nothing is held for longer than two windows.
    if (start > now) return { start: alignedStart(now, windowMs), previous: 0n, current: previous + current };
    if (now < start + windowMs) return { start, previous, current };
    if (now < start + 2n * windowMs) return { start: start + windowMs, previous: current, current: 0n };
    return { start: alignedStart(now, windowMs), previous: 0n, current: 0n };
  },
  liesInFuture: ({ start }, _rule, now) => start > now,
  usedAt({ start, previous, current }, { limit, windowMs }, at) {
    const elapsed = at - start;
    const [before, now] = [least(previous, limit), least(current, limit)];
    if (elapsed < windowMs) return before * (windowMs - elapsed) + now * windowMs;
    return elapsed < 2n * windowMs ? now * (2n * windowMs - elapsed) : 0n;
  },
  over: ({ start }, { windowMs }) => start + 2n * windowMs,
  add: (seen, _rule, cost) => ({ ...seen, current: seen.current + cost }),
  giveBack({ start, previous, current }, _rule, cost) {
    const rest = cost > current ? cost - current : 0n;
    return { start, previous: clamp(previous - rest, previous), current: clamp(current - cost, current) };
  },
  giveBackOf({ start, previous, current }, { windowMs }, cost, end) {
    if (end > start + windowMs) return { start, previous, current: clamp(current - cost, current) };
    return { start, previous: clamp(previous - cost, previous), current };
  },
};

/** Every grant, oldest first: it counts until `end`. */
type Log = readonly { end: bigint; cost: bigint }[];

const slidingLog: Counting<Log> = {
  untouched: [],
  part: () => 1n,
  read(stored, { windowMs }, now) {
    const live = stored.filter(({ end }) => end > now);
    return live.map(({ end, cost }) => ({ end: least(end, now + windowMs), cost }));
  },
  liesInFuture: (stored, { windowMs }, now) => stored.some(({ end }) => end > now + windowMs),
  usedAt(seen, _rule, at) {
    let used = 0n;
    for (const { end, cost } of seen) if (end > at) used += cost;
    return used;
  },
  over: (_seen, { windowMs }, now) => now + windowMs,
  add: (seen, { windowMs }, cost, now) => [...seen, { end: now + windowMs, cost }],
  giveBack(seen, _rule, cost) {
    let left = cost;
    const kept = seen.toReversed().map((grant) => {
      const given = least(left, grant.cost);
      left -= given;
      return { end: grant.end, cost: grant.cost - given };
    });
    return kept.reverse().filter((grant) => grant.cost > 0n);
  },
  giveBackOf(seen, { windowMs }, cost, end, now) {
    let left = cost;
    const kept = seen.map((grant) => {
      if (grant.end !== least(end, now + windowMs)) return grant;
      const given = least(left, grant.cost);
      left -= given;
      return { end: grant.end, cost: grant.cost - given };
    });
    return kept.filter((grant) => grant.cost > 0n);
  },
};

const MODELS: Record<AlgorithmName, () => Model> = {
  "token-bucket": () => modelOf(bucket),
  "leaky-bucket": () => modelOf(bucket, true),
  "fixed-window": () => modelOf(fixedWindow),
  "sliding-window": () => modelOf(slidingWindow),
  "sliding-log": () => modelOf(slidingLog),
};

/** Windows begin at multiples of their length. */
function alignedStart(now: bigint, windowMs: bigint): bigint {
  return now - (now % windowMs);
}

function least(a: bigint, b: bigint): bigint {
  return a < b ? a : b;
}

/** Not below 0 and not above `most`. */
function clamp(value: bigint, most: bigint): bigint {
  return value < 0n ? 0n : least(value, most);
}
