/** Runs the contract suites on mutants, stores and limiters with one known bug each: the case that covers it must fail. */
import { type Charge, type Decision, memoryRateLimiter, type Policy, type RateLimiter } from "sluice";
import { type DecideResult, decide, type PlainState } from "sluice/algorithms";
import { describeRateLimiter, fakeClock, storeSuite } from "sluice/testing";
import { describe, expect, it } from "vitest";
import type { RateAlgorithm } from "../src/testing/subject.ts";
import { failuresOf } from "./collect.ts";
import { type Mutation, type StoredBucket, toyStore } from "./toy-store.ts";

interface Mutant {
  name: string;
  /** Part of the title of a case that must fail. */
  fails: string;
  algorithms?: RateAlgorithm[];
  mutation?: Mutation;
  /** Wraps a correct limiter, for bugs above the store. */
  limiter?(policy: Policy, correct: RateLimiter): RateLimiter;
  maxKeys?: number;
}

/** Changes fields of a correct decision. */
function withFields(change: (decision: Decision, charge: Charge) => Partial<Decision> | undefined): Mutation {
  return {
    decide(state, charge, now) {
      const outcome = decide(state, charge, now);
      return { ...outcome, decision: { ...outcome.decision, ...change(outcome.decision, charge) } as Decision };
    },
  };
}

/** The usual token bucket, with state (tokens, time of the last refill) and the given `refill`. */
function naiveTokenBucket(
  refill: (tokens: number, last: number, now: number, perMs: number) => [number, number],
): Mutation {
  return {
    decide(state, charge, now) {
      const { policy: compiled, cost, mode } = charge;
      const perMs = compiled.unitsPerMs / compiled.unitsPerToken;
      const [stored, last] = (state as PlainState | undefined) ?? [compiled.limit, now];
      const [refilled, refilledAt] = refill(stored as number, last as number, now, perMs);
      let tokens = Math.min(compiled.limit, refilled);
      const allowed = tokens >= cost;
      if (mode === "refund") tokens = Math.min(compiled.limit, tokens + cost);
      if (mode === "take" && allowed) tokens -= cost;
      const missing = compiled.limit - tokens;
      const decision = {
        allowed,
        policy: compiled.name,
        limit: compiled.limit,
        remaining: Math.floor(tokens),
        resetAfterMs: Math.ceil(missing / perMs),
        nextAfterMs: missing === 0 ? 0 : Math.ceil((Math.floor(tokens) + 1 - tokens) / perMs),
        ...(allowed ? {} : { retryAfterMs: cost > compiled.limit ? null : Math.ceil((cost - tokens) / perMs) }),
      } as Decision;
      const changed = mode !== "peek" && (cost > 0 || state !== undefined) && (state !== undefined || allowed);
      return {
        decision,
        state: [tokens, refilledAt],
        changed,
        ttlMs: Math.max(1, decision.resetAfterMs),
      } satisfies DecideResult;
    },
  };
}

/** A bounded map that evicts its oldest entry, or the least recently used one if `isLru`. */
function boundedMap(maxEntries: number, isLru: boolean): NonNullable<Mutation["buckets"]> {
  const map = new Map<string, StoredBucket>();
  return {
    get(key) {
      const found = map.get(key);
      if (found && isLru) {
        map.delete(key);
        map.set(key, found);
      }
      return found;
    },
    set(key, value) {
      if (!map.has(key) && map.size >= maxEntries) map.delete(map.keys().next().value as string);
      return map.set(key, value);
    },
    delete: (key) => map.delete(key),
    clear: () => map.clear(),
  };
}

/** A limiter that delegates to a correct one, except for `overrides`. */
function wrap(correct: RateLimiter, overrides: Partial<RateLimiter>): RateLimiter {
  return {
    consistency: correct.consistency,
    consume: (key, cost) => correct.consume(key, cost),
    peek: (key, cost) => correct.peek(key, cost),
    refund: (key, cost, decision) => correct.refund(key, cost, decision),
    reset: (key) => correct.reset(key),
    inspect: (key) => correct.inspect(key),
    getPolicy: () => correct.getPolicy(),
    dispose: () => correct.dispose(),
    ...overrides,
  };
}

const bucketOnly: RateAlgorithm[] = ["token-bucket"];

const mutants: Mutant[] = [
  {
    name: "the refill is floored, but the timestamp advances",
    fails: "loses no fraction of a token",
    algorithms: bucketOnly,
    mutation: naiveTokenBucket((tokens, last, now, perMs) => [
      tokens + Math.floor(Math.max(0, now - last) * perMs),
      now,
    ]),
  },
  {
    name: "tokens are floats that drift",
    fails: "makes the same decisions as the pure function",
    algorithms: bucketOnly,
    mutation: naiveTokenBucket((tokens, last, now, perMs) => [
      tokens + Math.max(0, now - last) * perMs,
      Math.max(now, last),
    ]),
  },
  {
    name: "an earlier timestamp overwrites a later one",
    fails: "after the clock steps back",
    algorithms: bucketOnly,
    mutation: naiveTokenBucket((tokens, last, now, perMs) => [tokens + Math.abs(now - last) * perMs, now]),
  },
  {
    name: "a clock step back freezes the bucket until the clock catches up",
    fails: "after the clock steps back",
    algorithms: bucketOnly,
    mutation: {
      ...naiveTokenBucket((tokens, last, now, perMs) => [
        tokens + Math.max(0, now - last) * perMs,
        Math.max(now, last),
      ]),
      ttlMs: () => 1e12,
    },
  },
  {
    name: "a denial is charged",
    fails: "changes no stored state when it denies",
    mutation: {
      decide(state, charge, now) {
        const outcome = decide(state, charge, now);
        if (outcome.decision.allowed || charge.mode !== "take" || charge.cost === 1) return outcome;
        return { ...decide(state, { ...charge, cost: 1 }, now), decision: outcome.decision };
      },
    },
  },
  {
    name: "a refund ignores the decision it belongs to",
    fails: "once the grant of the decision has expired",
    limiter: (_policy, correct) => wrap(correct, { refund: (key, cost) => correct.refund(key, cost) }),
  },
  {
    name: "a named policy keeps its buckets when its window changes",
    fails: "another window or fill time",
    mutation: { storedKeyOf: ({ qualifiedName, algorithm }, key) => JSON.stringify([qualifiedName, algorithm, key]) },
  },
  {
    name: "a counter is capped at the limit of the plan that writes it",
    fails: "keeps each of two plans that share buckets",
    algorithms: ["fixed-window"],
    mutation: {
      decide(state, charge, now) {
        const [start = 0, count = 0] = (state as PlainState | undefined) ?? [];
        return decide(state && [start, Math.min(count, charge.policy.limit)], charge, now);
      },
    },
  },
  {
    name: "nothing ever expires",
    fails: "keeps state until the bucket is full",
    mutation: { ttlMs: () => Number.POSITIVE_INFINITY },
  },
  {
    name: "state expires too soon",
    fails: "keeps state until the bucket is full",
    mutation: { ttlMs: ({ ttlMs }) => Math.ceil(ttlMs / 2) },
  },
  {
    name: "a cost of NaN is accepted",
    fails: "rejects an invalid cost, key or policy",
    limiter: (_policy, correct) =>
      wrap(correct, { consume: async (key, cost) => correct.consume(key, Number.isNaN(cost) ? 0 : cost) }),
  },
  {
    name: "a negative cost refunds",
    fails: "rejects an invalid cost, key or policy",
    limiter: (_policy, correct) =>
      wrap(correct, {
        async consume(key, cost = 1) {
          if (!(cost < 0)) return correct.consume(key, cost);
          await correct.refund(key, -cost);
          return correct.peek(key);
        },
      }),
  },
  {
    name: "a string cost is coerced",
    fails: "rejects an invalid cost, key or policy",
    limiter: (_policy, correct) =>
      wrap(correct, {
        consume: (key, cost = 1) => correct.consume(key, typeof cost === "string" ? Number(cost) : cost),
      }),
  },
  {
    name: "all empty keys share a bucket",
    fails: "rejects an invalid cost, key or policy",
    limiter: (_policy, correct) => wrap(correct, { consume: (key, cost) => correct.consume(key || "anon", cost) }),
  },
  {
    name: "cost 0 is replaced by the default",
    fails: "allows cost 0",
    limiter: (_policy, correct) => wrap(correct, { consume: (key, cost) => correct.consume(key, cost || 1) }),
  },
  {
    name: "policies share the key",
    fails: "different names, prefixes and policies apart",
    mutation: { storedKeyOf: (_policy, key) => key },
  },
  {
    name: "name and key are joined without escaping",
    fails: "different names, prefixes and policies apart",
    mutation: { storedKeyOf: ({ resolved }, key) => `${resolved.prefix ?? ""}${resolved.name}:${key}` },
  },
  {
    name: "keys are trimmed",
    fails: "keeps similar keys apart",
    mutation: { storedKeyOf: (compiled, key) => JSON.stringify([compiled.id, key.trim()]) },
  },
  {
    name: "keys are truncated",
    fails: "keeps similar keys apart",
    mutation: { storedKeyOf: (compiled, key) => JSON.stringify([compiled.id, key.slice(0, 256)]) },
  },
  {
    name: "keys are normalised to one Unicode form",
    fails: "keeps similar keys apart",
    mutation: { storedKeyOf: (compiled, key) => JSON.stringify([compiled.id, key.normalize()]) },
  },
  {
    name: "the stored key contains the limit",
    fails: "when its limit changes",
    mutation: { storedKeyOf: (compiled, key) => JSON.stringify([compiled.id, compiled.limit, key]) },
  },
  {
    name: "two callers read before either writes",
    fails: "never spends a token twice",
    mutation: { pause: async () => {} },
  },
  {
    name: "a cost above the limit gets a finite wait",
    fails: "denies a cost above the limit with retryAfterMs null",
    mutation: withFields(({ retryAfterMs }) => (retryAfterMs === null ? { retryAfterMs: 1000 } : undefined)),
  },
  {
    name: "a refund goes above full",
    fails: "refunds at most what is in use",
    algorithms: ["fixed-window"],
    mutation: {
      decide(state, charge, now) {
        if (charge.mode !== "refund" || !state) return decide(state, charge, now);
        const [start, taken] = state as [number, number];
        return { ...decide(state, charge, now), state: [start, taken - charge.cost], changed: true };
      },
    },
  },
  {
    name: "a refund to an unused key creates a bucket",
    fails: "refunds at most what is in use",
    mutation: {
      decide: (state, charge, now) => ({
        ...decide(state, charge, now),
        ...(charge.mode === "refund" && !state
          ? { changed: true, state: decide([], { ...charge, cost: 1, mode: "take" }, now).state }
          : {}),
      }),
    },
  },
  {
    name: "peek takes the cost",
    fails: "peeks at the decision",
    limiter: (_policy, correct) => wrap(correct, { peek: (key, cost) => correct.consume(key, cost) }),
  },
  {
    name: "retryAfterMs is 1 ms too short",
    fails: "allows a retry after retryAfterMs",
    mutation: withFields(({ retryAfterMs }) => (retryAfterMs ? { retryAfterMs: retryAfterMs - 1 } : undefined)),
  },
  {
    name: "retryAfterMs is rounded up to a second",
    fails: "allows a retry after retryAfterMs",
    mutation: withFields(({ retryAfterMs }) =>
      retryAfterMs ? { retryAfterMs: Math.ceil(retryAfterMs / 1000) * 1000 } : undefined,
    ),
  },
  {
    name: "retryAfterMs ignores the cost",
    fails: "allows a retry after retryAfterMs",
    mutation: withFields(({ retryAfterMs, nextAfterMs }) => (retryAfterMs ? { retryAfterMs: nextAfterMs } : undefined)),
  },
  {
    name: "remaining does not include the charge",
    fails: "takes the cost and reports what is left",
    mutation: withFields(({ allowed, remaining }, { cost, mode }) =>
      allowed && mode === "take" ? { remaining: remaining + cost } : undefined,
    ),
  },
  {
    name: "an allowed decision carries a retryAfterMs",
    fails: "takes the cost and reports what is left",
    mutation: withFields(({ allowed }) => (allowed ? ({ retryAfterMs: 0 } as Partial<Decision>) : undefined)),
  },
  {
    name: "the least recently used key is evicted",
    fails: "while new keys flood the store",
    maxKeys: 50,
    algorithms: bucketOnly,
  },
  { name: "the oldest key is evicted", fails: "while new keys flood the store", maxKeys: 50, algorithms: bucketOnly },
  {
    name: "a fixed window starts at the first charge",
    fails: "makes the same decisions as the pure function",
    algorithms: ["fixed-window"],
    mutation: { decide: (state, charge, now) => (state ? decide(state, charge, now) : decide([now, 0], charge, now)) },
  },
  {
    name: "a fixed window restarts with every charge",
    fails: "keeps state until the bucket is full",
    algorithms: ["fixed-window"],
    mutation: {
      decide(state, charge, now) {
        const outcome = decide(state, charge, now);
        return { ...outcome, state: [now, (outcome.state as PlainState)[1] ?? 0] };
      },
    },
  },
  {
    name: "a sliding window ignores the previous window",
    fails: "makes the same decisions as the pure function",
    algorithms: ["sliding-window"],
    mutation: {
      decide(state, charge, now) {
        const [start = 0, , current = 0] = (state as PlainState | undefined) ?? [];
        return decide(state && [start, 0, current], charge, now);
      },
    },
  },
  {
    name: "the log keeps one charge per millisecond",
    fails: "never spends a token twice",
    algorithms: ["sliding-log"],
    mutation: {
      decide(state, charge, now) {
        const last = (state as PlainState | undefined)?.at(-2);
        const outcome = decide(state, charge, now);
        return last === now + charge.policy.windowMs ? { ...outcome, changed: false } : outcome;
      },
    },
  },
  {
    name: "state dated in the future is clamped, but not written back",
    fails: "after the clock steps back",
    algorithms: ["token-bucket", "leaky-bucket", "fixed-window"],
    mutation: {
      decide: (state, charge, now) => {
        const outcome = decide(state, charge, now);
        return outcome.decision.allowed ? outcome : { ...outcome, changed: false };
      },
    },
  },
  {
    name: "a leaky bucket reports no delay",
    fails: "delays the calls of a leaky bucket",
    algorithms: ["leaky-bucket"],
    mutation: withFields(({ delayMs }) => (delayMs ? { delayMs: 0 } : undefined)),
  },
  {
    name: "a denied group keeps its first charges",
    fails: "charges all of a group or nothing",
    mutation: { group: (charges, _peek, take) => charges.map((_, i) => take(i)) },
  },
  {
    name: "a denied group leaves state dated in the future",
    fails: "clamps state dated in the future when a group is denied",
    mutation: {
      group(charges, peek, take) {
        const peeked = charges.map((_, i) => peek(i));
        return charges.length === 1 || peeked.every(({ allowed }) => allowed) ? charges.map((_, i) => take(i)) : peeked;
      },
    },
  },
  {
    name: "a denied group reports numbers as if taken",
    fails: "numbers of a denied group as untaken",
    mutation: {
      group(charges, peek, take) {
        const peeked = charges.map((_, i) => peek(i));
        if (peeked.every(({ allowed }) => allowed)) return charges.map((_, i) => take(i));
        return peeked.map((decision, i) =>
          decision.allowed ? { ...decision, remaining: decision.remaining - (charges[i]?.cost ?? 0) } : decision,
        );
      },
    },
  },
  {
    name: "reset clears every key",
    fails: "resets one key and no other",
    mutation: { reset: (buckets) => buckets.clear() },
  },
  {
    name: "a store still decides after dispose",
    fails: "rejects calls after dispose",
    mutation: { disposable: false },
  },
  {
    name: "a limiter still decides after dispose",
    fails: "rejects calls after dispose",
    limiter: (_policy, correct) => wrap(correct, { dispose: async () => {} }),
  },
  {
    name: "the resolved policy is not frozen",
    fails: "frozen",
    limiter: (_policy, correct) => wrap(correct, { getPolicy: () => ({ ...correct.getPolicy() }) }),
  },
];

const EVICTION_IS_LRU: Record<string, boolean> = {
  "the least recently used key is evicted": true,
  "the oldest key is evicted": false,
};

function failures({ name, mutation, limiter, algorithms, maxKeys }: Mutant): Promise<string[]> {
  const options = { time: "fake", ...(algorithms ? { algorithms } : {}) } as const;
  if (limiter) {
    return failuresOf((runner) =>
      describeRateLimiter(
        name,
        (policy) => {
          const clock = fakeClock();
          return { limiter: limiter(policy, memoryRateLimiter(policy, { clock })), advance: clock.advance };
        },
        { ...options, ...runner },
      ),
    );
  }
  return failuresOf((runner) =>
    storeSuite(
      name,
      () => {
        const clock = fakeClock();
        const buckets = maxKeys ? { buckets: boundedMap(maxKeys, EVICTION_IS_LRU[name] ?? false) } : {};
        return {
          store: toyStore(clock, { ...mutation, ...buckets }),
          advance: clock.advance,
          ...(maxKeys ? { maxKeys } : {}),
        };
      },
      { ...options, ...runner, holds: false },
    ),
  );
}

describe("the contract suite", () => {
  it("passes on a correct store", async () => {
    expect(await failures({ name: "correct", fails: "" })).toEqual([]);
  });

  it("passes on a correct limiter", async () => {
    expect(await failures({ name: "correct", fails: "", limiter: (_policy, correct) => wrap(correct, {}) })).toEqual(
      [],
    );
  });

  it.each(mutants)("catches a mutant: $name", async (mutant) => {
    const found = await failures(mutant);
    expect(
      found.filter((title) => title.includes(mutant.fails)),
      `all failures: ${found.join("\n")}`,
    ).not.toEqual([]);
  });

  it("is run on at least forty mutants with distinct names", () => {
    expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length);
    expect(mutants.length).toBeGreaterThanOrEqual(40);
  });
});
