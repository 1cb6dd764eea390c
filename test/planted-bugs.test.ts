/** The contract kit has to fail on broken limiters: each known bug is planted, and the law that it breaks must say so. */
import {
  type AlgorithmName,
  type Charge,
  type Decision,
  memoryRateLimiter,
  type Policy,
  type RateLimiter,
} from "sluice";
import { type DecideResult, decide } from "sluice/algorithms";
import { describeRateLimiter, fakeClock, storeSuite } from "sluice/testing";
import { describe, expect, it } from "vitest";
import { failuresOf } from "./collect.ts";
import { type Flaws, type Kept, toyStore } from "./toy-store.ts";

interface Bug {
  name: string;
  /** A part of the title of a law that must fail. */
  breaks: string;
  algorithms?: AlgorithmName[];
  flaws?: Flaws;
  /** A wrong limiter around a right one, for bugs above the store. */
  limiter?(policy: Policy, right: RateLimiter): RateLimiter;
  maxKeys?: number;
}

/** Changes what a right decision says. */
function saying(change: (decision: Decision, charge: Charge) => Partial<Decision> | undefined): Flaws {
  return {
    decide(state, charge, now) {
      const outcome = decide(state, charge, now);
      return { ...outcome, decision: { ...outcome.decision, ...change(outcome.decision, charge) } as Decision };
    },
  };
}

/** A token bucket kept as (tokens, last), the way most are written, with `refill` as given. */
function tokensAndLast(refill: (tokens: number, last: number, now: number, perMs: number) => [number, number]): Flaws {
  return {
    decide(state, charge, now) {
      const { policy: compiled, cost, mode } = charge;
      const perMs = compiled.unitsPerMs / compiled.unitsPerToken;
      const [kept, last] = state ?? [compiled.limit, now];
      const [grown, stamp] = refill(kept as number, last as number, now, perMs);
      let tokens = Math.min(compiled.limit, grown);
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
        state: [tokens, stamp],
        changed,
        ttlMs: Math.max(1, decision.resetAfterMs),
      } satisfies DecideResult;
    },
  };
}

/** A bounded map that gives up its oldest entry; `touch` makes it least recently used instead of first in. */
function boundedMap(most: number, touch: boolean): NonNullable<Flaws["kept"]> {
  const map = new Map<string, Kept>();
  return {
    get(key) {
      const found = map.get(key);
      if (found && touch) {
        map.delete(key);
        map.set(key, found);
      }
      return found;
    },
    set(key, value) {
      if (!map.has(key) && map.size >= most) map.delete(map.keys().next().value as string);
      return map.set(key, value);
    },
    delete: (key) => map.delete(key),
    clear: () => map.clear(),
  };
}

/** A limiter that hands everything to the right one but what is given. */
function around(right: RateLimiter, wrong: Partial<RateLimiter>): RateLimiter {
  return {
    consistency: right.consistency,
    consume: (key, cost) => right.consume(key, cost),
    peek: (key, cost) => right.peek(key, cost),
    refund: (key, cost, decision) => right.refund(key, cost, decision),
    reset: (key) => right.reset(key),
    inspect: (key) => right.inspect(key),
    getPolicy: () => right.getPolicy(),
    dispose: () => right.dispose(),
    ...wrong,
  };
}

const bucketOnly: AlgorithmName[] = ["token-bucket"];

const bugs: Bug[] = [
  {
    name: "the refill is floored and the timestamp advances all the same",
    breaks: "law 2",
    algorithms: bucketOnly,
    flaws: tokensAndLast((tokens, last, now, perMs) => [tokens + Math.floor(Math.max(0, now - last) * perMs), now]),
  },
  {
    name: "tokens are floats that drift",
    breaks: "law 6",
    algorithms: bucketOnly,
    flaws: tokensAndLast((tokens, last, now, perMs) => [tokens + Math.max(0, now - last) * perMs, Math.max(now, last)]),
  },
  {
    name: "an older timestamp is written back",
    breaks: "law 7",
    algorithms: bucketOnly,
    flaws: tokensAndLast((tokens, last, now, perMs) => [tokens + Math.abs(now - last) * perMs, now]),
  },
  {
    name: "the clock's step back freezes the bucket until the clock has caught up",
    breaks: "law 7",
    algorithms: bucketOnly,
    flaws: {
      ...tokensAndLast((tokens, last, now, perMs) => [tokens + Math.max(0, now - last) * perMs, Math.max(now, last)]),
      ttlMs: () => 1e12,
    },
  },
  {
    name: "a denial is charged",
    breaks: "law 4",
    flaws: {
      decide(state, charge, now) {
        const outcome = decide(state, charge, now);
        if (outcome.decision.allowed || charge.mode !== "take" || charge.cost === 1) return outcome;
        return { ...decide(state, { ...charge, cost: 1 }, now), decision: outcome.decision };
      },
    },
  },
  {
    name: "a refund does not ask when its grant was made",
    breaks: "once that grant has expired",
    limiter: (_policy, right) => around(right, { refund: (key, cost) => right.refund(key, cost) }),
  },
  {
    name: "a named policy keeps its buckets when its window changes",
    breaks: "another window or fill time",
    flaws: { nameOf: ({ qualifiedName, algorithm }, key) => JSON.stringify([qualifiedName, algorithm, key]) },
  },
  {
    name: "a counter is cut to the limit of the plan that writes it",
    breaks: "any interleaving of two plans",
    algorithms: ["fixed-window"],
    flaws: {
      decide(state, charge, now) {
        const [start = 0, count = 0] = state ?? [];
        return decide(state && [start, Math.min(count, charge.policy.limit)], charge, now);
      },
    },
  },
  { name: "nothing ever expires", breaks: "law 10", flaws: { ttlMs: () => Number.POSITIVE_INFINITY } },
  { name: "state expires too soon", breaks: "law 10", flaws: { ttlMs: ({ ttlMs }) => Math.ceil(ttlMs / 2) } },
  {
    name: "costs are not checked, so that NaN passes",
    breaks: "law 9",
    limiter: (_policy, right) =>
      around(right, { consume: async (key, cost) => right.consume(key, Number.isNaN(cost) ? 0 : cost) }),
  },
  {
    name: "a negative cost gives back",
    breaks: "law 9",
    limiter: (_policy, right) =>
      around(right, {
        async consume(key, cost = 1) {
          if (!(cost < 0)) return right.consume(key, cost);
          await right.refund(key, -cost);
          return right.peek(key);
        },
      }),
  },
  {
    name: "a cost in text is coerced",
    breaks: "law 9",
    limiter: (_policy, right) =>
      around(right, { consume: (key, cost = 1) => right.consume(key, typeof cost === "string" ? Number(cost) : cost) }),
  },
  {
    name: "an empty key is everybody's bucket",
    breaks: "law 9",
    limiter: (_policy, right) => around(right, { consume: (key, cost) => right.consume(key || "anon", cost) }),
  },
  {
    name: "cost 0 is taken for the default",
    breaks: "cost 0 is free",
    limiter: (_policy, right) => around(right, { consume: (key, cost) => right.consume(key, cost || 1) }),
  },
  { name: "policies share the key", breaks: "law 11: the same key", flaws: { nameOf: (_terms, key) => key } },
  {
    name: "name and key are joined without escaping",
    breaks: "law 11",
    flaws: { nameOf: ({ resolved }, key) => `${resolved.prefix ?? ""}${resolved.name}:${key}` },
  },
  {
    name: "keys are trimmed",
    breaks: "law 11: keys never collide",
    flaws: { nameOf: (compiled, key) => JSON.stringify([compiled.id, key.trim()]) },
  },
  {
    name: "keys are cut",
    breaks: "law 11: keys never collide",
    flaws: { nameOf: (compiled, key) => JSON.stringify([compiled.id, key.slice(0, 256)]) },
  },
  {
    name: "keys are made equal by Unicode form",
    breaks: "law 11: keys never collide",
    flaws: { nameOf: (compiled, key) => JSON.stringify([compiled.id, key.normalize()]) },
  },
  {
    name: "a fingerprint of the numbers is in the key",
    breaks: "numbers change",
    flaws: { nameOf: (compiled, key) => JSON.stringify([compiled.id, compiled.limit, key]) },
  },
  { name: "two callers read before either writes", breaks: "concurrent", flaws: { pause: async () => {} } },
  {
    name: "a cost above the limit gets a finite wait",
    breaks: "law 5",
    flaws: saying(({ retryAfterMs }) => (retryAfterMs === null ? { retryAfterMs: 1000 } : undefined)),
  },
  {
    name: "a refund goes above full",
    breaks: "refund",
    algorithms: ["fixed-window"],
    flaws: {
      decide(state, charge, now) {
        if (charge.mode !== "refund" || !state) return decide(state, charge, now);
        const [start, taken] = state as [number, number];
        return { ...decide(state, charge, now), state: [start, taken - charge.cost], changed: true };
      },
    },
  },
  {
    name: "a refund of an unknown key makes a bucket",
    breaks: "refund",
    flaws: {
      decide: (state, charge, now) => ({
        ...decide(state, charge, now),
        ...(charge.mode === "refund" && !state
          ? { changed: true, state: decide([], { ...charge, cost: 1, mode: "take" }, now).state }
          : {}),
      }),
    },
  },
  {
    name: "a look takes",
    breaks: "peek",
    limiter: (_policy, right) => around(right, { peek: (key, cost) => right.consume(key, cost) }),
  },
  {
    name: "the retry is a millisecond short",
    breaks: "law 3",
    flaws: saying(({ retryAfterMs }) => (retryAfterMs ? { retryAfterMs: retryAfterMs - 1 } : undefined)),
  },
  {
    name: "the retry is rounded up to a second",
    breaks: "law 3",
    flaws: saying(({ retryAfterMs }) =>
      retryAfterMs ? { retryAfterMs: Math.ceil(retryAfterMs / 1000) * 1000 } : undefined,
    ),
  },
  {
    name: "the retry is that of one unit, whatever the cost",
    breaks: "law 3",
    flaws: saying(({ retryAfterMs, nextAfterMs }) => (retryAfterMs ? { retryAfterMs: nextAfterMs } : undefined)),
  },
  {
    name: "remaining is that of before",
    breaks: "consume takes the cost",
    flaws: saying(({ allowed, remaining }, { cost, mode }) =>
      allowed && mode === "take" ? { remaining: remaining + cost } : undefined,
    ),
  },
  {
    name: "an allowed decision carries a retryAfterMs",
    breaks: "consume takes the cost",
    flaws: saying(({ allowed }) => (allowed ? ({ retryAfterMs: 0 } as Partial<Decision>) : undefined)),
  },
  { name: "the least recently used key is given up", breaks: "spray", maxKeys: 50, algorithms: bucketOnly },
  { name: "the oldest key is given up", breaks: "spray", maxKeys: 50, algorithms: bucketOnly },
  {
    name: "a fixed window begins at the first charge",
    breaks: "law 6",
    algorithms: ["fixed-window"],
    flaws: { decide: (state, charge, now) => (state ? decide(state, charge, now) : decide([now, 0], charge, now)) },
  },
  {
    name: "the window starts again with every charge",
    breaks: "law 10",
    algorithms: ["fixed-window"],
    flaws: {
      decide(state, charge, now) {
        const outcome = decide(state, charge, now);
        return { ...outcome, state: [now, outcome.state[1] ?? 0] };
      },
    },
  },
  {
    name: "the sliding window forgets the window before",
    breaks: "law 6",
    algorithms: ["sliding-window"],
    flaws: { decide: (state, charge, now) => decide(state && [state[0] ?? 0, 0, state[2] ?? 0], charge, now) },
  },
  {
    name: "charges of one millisecond are one in the log",
    breaks: "concurrent",
    algorithms: ["sliding-log"],
    flaws: {
      decide(state, charge, now) {
        const last = state?.[state.length - 2];
        const outcome = decide(state, charge, now);
        return last === now + charge.policy.windowMs ? { ...outcome, changed: false } : outcome;
      },
    },
  },
  {
    name: "a state from the future is clamped, but not written back",
    breaks: "law 7",
    algorithms: ["token-bucket", "leaky-bucket", "fixed-window"],
    flaws: {
      decide: (state, charge, now) => {
        const outcome = decide(state, charge, now);
        return outcome.decision.allowed ? outcome : { ...outcome, changed: false };
      },
    },
  },
  {
    name: "a leaky bucket tells no delay",
    breaks: "waits its turn",
    algorithms: ["leaky-bucket"],
    flaws: saying(({ delayMs }) => (delayMs ? { delayMs: 0 } : undefined)),
  },
  {
    name: "a denied group keeps what its first parts took",
    breaks: "all or none",
    flaws: { group: (charges, _peek, take) => charges.map((_, i) => take(i)) },
  },
  {
    name: "a denied group leaves a state in the future",
    breaks: "a denied group heals",
    flaws: {
      group(charges, peek, take) {
        const looks = charges.map((_, i) => peek(i));
        return charges.length === 1 || looks.every(({ allowed }) => allowed) ? charges.map((_, i) => take(i)) : looks;
      },
    },
  },
  {
    name: "a denied group reports figures as if taken",
    breaks: "untaken figures",
    flaws: {
      group(charges, peek, take) {
        const looks = charges.map((_, i) => peek(i));
        if (looks.every(({ allowed }) => allowed)) return charges.map((_, i) => take(i));
        return looks.map((look, i) =>
          look.allowed ? { ...look, remaining: look.remaining - (charges[i]?.cost ?? 0) } : look,
        );
      },
    },
  },
  { name: "reset forgets everybody", breaks: "reset", flaws: { reset: (kept) => kept.clear() } },
  { name: "a store goes on after dispose", breaks: "dispose", flaws: { disposable: false } },
  {
    name: "a limiter goes on after dispose",
    breaks: "dispose",
    limiter: (_policy, right) => around(right, { dispose: async () => {} }),
  },
  {
    name: "the policy can be changed from outside",
    breaks: "frozen",
    limiter: (_policy, right) => around(right, { getPolicy: () => ({ ...right.getPolicy() }) }),
  },
];

const brokenMaps: Record<string, boolean> = {
  "the least recently used key is given up": true,
  "the oldest key is given up": false,
};

function failures({ name, flaws, limiter, algorithms, maxKeys }: Bug): Promise<string[]> {
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
        const kept = maxKeys ? { kept: boundedMap(maxKeys, brokenMaps[name] ?? false) } : {};
        return {
          store: toyStore(clock, { ...flaws, ...kept }),
          advance: clock.advance,
          ...(maxKeys ? { maxKeys } : {}),
        };
      },
      { ...options, ...runner },
    ),
  );
}

describe("the contract kit", () => {
  it("finds nothing wrong with a right store", async () => {
    expect(await failures({ name: "right", breaks: "" })).toEqual([]);
  });

  it("finds nothing wrong with a right limiter", async () => {
    expect(await failures({ name: "right", breaks: "", limiter: (_policy, right) => around(right, {}) })).toEqual([]);
  });

  it.each(bugs)("catches: $name", async (bug) => {
    const found = await failures(bug);
    expect(
      found.filter((title) => title.includes(bug.breaks)),
      `all failures: ${found.join("\n")}`,
    ).not.toEqual([]);
  });

  it("plants each bug under a name of its own, and at least forty", () => {
    expect(new Set(bugs.map(({ name }) => name)).size).toBe(bugs.length);
    expect(bugs.length).toBeGreaterThanOrEqual(40);
  });
});
