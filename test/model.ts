/**
 * A slow and exact reference implementation of every decision: BigInt arithmetic, and waits found by binary search
 * instead of a formula.
 */
import type { Mode } from "sluice";
import type { RateAlgorithm } from "../src/testing/subject.ts";
import { ALGORITHM_MODELS, type AlgorithmModel, type Rule } from "./algorithm-models.ts";

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
  return createModelOf(ALGORITHM_MODELS[algorithm], algorithm === "leaky-bucket");
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
