/** Tests two plans of one name with random interleaving: equal decisions on every store, each plan within its bound. */

import { memoryStore } from "sluice";
import { redisStore } from "sluice/redis";
import { fakeClock } from "sluice/testing";
import { describe, expect, it } from "vitest";
import { scaled } from "../scripts/scale.js";
import type { Charge } from "../src/core/charge.ts";
import type { Decision } from "../src/core/decision.ts";
import { createLimiter } from "../src/remote/create-limiter.ts";
import { PlanBounds, planBatches, planPair } from "../src/testing/plan-charges.ts";
import { randomFrom } from "../src/testing/random.ts";
import { ALGORITHMS, policyOf } from "../src/testing/subject.ts";
import { onFakeTime } from "./redis/on-fake-time.ts";
import { redis } from "./redis/own-redis.ts";
import { withRedis } from "./servers/needs.ts";

/** Steps in memory, a tenth of them also on Redis. Use `SLUICE_SCALE=10` for a long run. */
const STEPS = scaled(100_000);
const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
const PER_PAIR = 400;

describe(`two plans of one name (seed ${seed})`, withRedis, () => {
  it.each(ALGORITHMS)(
    "%s: stay within their bounds and get equal decisions in memory and on Redis",
    async (algorithm) => {
      const random = randomFrom(seed);
      const counts = { memory: 0, redis: 0, allowed: 0, denied: 0 };
      const perAlgorithm = STEPS / ALGORITHMS.length;
      while (counts.memory < perAlgorithm) {
        const clock = fakeClock(1_790_000_000_000 + random.whole(0, 100_000));
        const memory = memoryStore({ clock });
        // Redis expires keys by its own clock, not by the fake clock.
        const remote =
          counts.redis < perAlgorithm / 10 ? redisStore(onFakeTime(redis, clock), { ttlMs: "1h" }) : undefined;
        const plans = planPair(algorithm, random);
        const bounds = new PlanBounds(plans);
        for (const { advanceMs, groups } of planBatches(plans, random, PER_PAIR)) {
          clock.advance(advanceMs);
          const decisions = groups.map((group) => memory.applySync(group));
          if (remote) {
            expect(await remote.apply(groups), `seed ${seed}, step ${counts.memory}`).toEqual(decisions);
            counts.redis += groups.length;
          }
          for (const [i, [charge]] of groups.entries()) {
            const decision = decisions[i]?.[0] as Decision;
            bounds.record(charge as Charge, decision, clock.now());
            if (charge?.mode === "take") counts[decision.allowed ? "allowed" : "denied"]++;
          }
          counts.memory += groups.length;
        }
      }
      expect(counts.redis).toBeGreaterThanOrEqual(perAlgorithm / 10);
      expect(Math.min(counts.allowed, counts.denied)).toBeGreaterThan(perAlgorithm / 20);
      console.log(`${algorithm}: ${JSON.stringify(counts)}`);
    },
  );
});

describe("a rolling deploy that changes a named policy", withRedis, () => {
  // Regression: state further ahead than the reader's fill time was treated as a clock step back.
  it.each(ALGORITHMS)("%s: admits at most one capacity of 100 per day beside 10 per second", async (algorithm) => {
    const clock = fakeClock(1_790_000_000_000);
    const DAY = 86_400_000;
    const of = (limit: number, spanMs: number) =>
      createLimiter({
        policy: policyOf(algorithm, limit, spanMs, "api"),
        store: redisStore(onFakeTimeOf(clock), { ttlMs: "1d" }),
        localDenialMs: 0,
        onStoreError: "throw",
      });
    const [before, after] = [of(100, DAY), of(10, 1000)];
    let admitted = 0;
    for (let i = 0; i < 1000; i++) {
      clock.advance(10);
      await after.consume("k");
      if ((await before.consume("k")).allowed) admitted++;
    }
    expect(admitted).toBe(100);
  });

  const clients = new Map<object, ReturnType<typeof onFakeTime>>();
  /** One key prefix for both processes. */
  function onFakeTimeOf(clock: ReturnType<typeof fakeClock>): ReturnType<typeof onFakeTime> {
    let client = clients.get(clock);
    if (!client) clients.set(clock, (client = onFakeTime(redis, clock)));
    return { ...client, status: "ready" };
  }
});
