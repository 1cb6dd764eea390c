/** Contract cases for retries, refill, expiry and clock steps. */
import type { Policy } from "../../core/policy.ts";
import { check, checkEqual } from "../check.ts";
import { policyOf } from "../subject.ts";
import { compareWithPure } from "./compare-with-pure.ts";
import { advance, BUCKETS, drain, HOUR, type Law } from "./law.ts";

export const timeLaws: readonly Law[] = [
  {
    title: "allows a retry after retryAfterMs and denies it 1 ms earlier",
    needs: "fake time",
    async run(bench) {
      const { random } = bench;
      for (let i = 0; i < 40; i++) {
        const limit = random.pick([1, 2, 3, 10, 1000]);
        const subject = await bench.create(
          policyOf(bench.algorithm, limit, random.pick([limit, 700, 1000, 3333, HOUR])),
        );
        await advance(subject, random.whole(0, 1500));
        await subject.limiter.consume("user:1", random.whole(1, limit));
        await advance(subject, random.whole(0, 900));
        await subject.limiter.consume("user:1", random.whole(1, limit));
        const cost = random.whole(1, limit);
        const denied = await subject.limiter.consume("user:1", cost);
        if (denied.allowed) continue;
        const wait = denied.retryAfterMs;
        check(Number.isInteger(wait) && wait !== null && wait >= 1, `retryAfterMs is ${wait}, not a whole number >= 1`);
        await advance(subject, wait - 1);
        check(
          !(await subject.limiter.consume("user:1", cost)).allowed,
          `cost ${cost} of ${limit}: admitted 1 ms before retryAfterMs ${wait}`,
        );
        await advance(subject, 1);
        check(
          (await subject.limiter.consume("user:1", cost)).allowed,
          `cost ${cost} of ${limit}: denied after retryAfterMs ${wait}`,
        );
      }
    },
  },
  {
    title: "allows a retry after retryAfterMs",
    needs: "time",
    async run(bench) {
      const subject = await bench.create(policyOf(bench.algorithm, 3, 300));
      let decision = await subject.limiter.consume("user:1");
      for (let i = 0; decision.allowed && i < 50; i++) decision = await subject.limiter.consume("user:1");
      check(!decision.allowed && decision.retryAfterMs !== null, "50 charges at once never emptied a limit of 3");
      await advance(subject, decision.retryAfterMs);
      check((await subject.limiter.consume("user:1")).allowed, `denied after waiting ${decision.retryAfterMs} ms`);
    },
  },
  {
    title: "makes the same decisions as the pure function over random steps",
    needs: "fake time",
    async run(bench) {
      const { random } = bench;
      for (const [limit, spanMs] of [
        [1, 1],
        [3, 1000],
        [10, 1000],
        [7, 3333],
        [5000, HOUR],
      ] as const)
        await compareWithPure(bench, limit, spanMs, 150);
      await compareWithPure(bench, random.whole(1, 10_000), random.whole(10, 10 * HOUR), 150);
    },
  },
  {
    title: "admits nothing extra after the clock steps back, and recovers within one full refill",
    needs: "fake time",
    async run(bench) {
      for (const back of [1, 400, 1000, 2500, HOUR, 24 * HOUR, 400 * 24 * HOUR]) {
        const subject = await bench.create(policyOf(bench.algorithm, 10, 1000));
        await advance(subject, 3210);
        await drain(subject.limiter, "user:1", 10);
        await advance(subject, -back);
        const denied = await subject.limiter.consume("user:1");
        check(!denied.allowed, `${back} ms back: a charge was admitted from an empty bucket`);
        await advance(subject, bench.algorithm === "sliding-window" ? 2000 : 1000);
        const after = await subject.limiter.consume("user:1", 10);
        check(after.allowed, `${back} ms back: still denied a full refill later: ${JSON.stringify(after)}`);
        // Forward again: charges that are now in the past must not count.
        await advance(subject, back + 2000);
        check((await subject.limiter.consume("user:1", 10)).allowed, `${back} ms back and forward again: denied`);
      }
    },
  },
  {
    title: "is exact at fractional rates",
    needs: "fake time",
    only: BUCKETS,
    async run(bench) {
      const name = bench.algorithm === "token-bucket" ? "tokensPerSecond" : "leaksPerSecond";
      const of = (capacity: number, rate: number | string) =>
        ({ algorithm: bench.algorithm, capacity, [name]: rate }) as unknown as Policy;
      for (const [rate, ms] of [
        [0.1, 10_000],
        ["3/h", 1_200_000],
        [3, 334],
        [1 / 3, 3000],
        [1e-3, 1e6],
      ] as const) {
        const subject = await bench.create(of(1, rate));
        await drain(subject.limiter, "user:1", 1);
        checkEqual((await subject.limiter.consume("user:1")).retryAfterMs, ms, `retryAfterMs at ${rate} per second`);
        await advance(subject, ms);
        await drain(subject.limiter, "user:1", 1);
      }
      const thirds = await bench.create(of(3, 3));
      await drain(thirds.limiter, "user:1", 3);
      await advance(thirds, 1000);
      await drain(thirds.limiter, "user:1", 3);
    },
  },
  {
    title: "keeps state until the bucket is full, and no longer than its TTL",
    needs: "fake time",
    async run(bench) {
      const subject = await bench.create(policyOf(bench.algorithm, 10, 1000));
      await advance(subject, 130);
      await subject.limiter.consume("user:1", 4);
      const kept = await subject.limiter.inspect("user:1");
      check(
        kept.found && kept.ttlMs !== null && Number.isSafeInteger(kept.ttlMs),
        `the TTL of a bucket in use is ${kept.ttlMs}`,
      );
      check(
        kept.ttlMs >= kept.resetAfterMs,
        `the TTL is ${kept.ttlMs} ms, but the bucket is full only after ${kept.resetAfterMs} ms`,
      );
      await advance(subject, kept.resetAfterMs - 1);
      check((await subject.limiter.peek("user:1")).resetAfterMs === 1, "full 1 ms before the reset");
      await advance(subject, 1);
      checkEqual((await subject.limiter.peek("user:1")).remaining, 10, "left at the reset");
      await advance(subject, Math.max(0, kept.ttlMs - kept.resetAfterMs));
      checkEqual((await subject.limiter.inspect("user:1")).found, false, "found after its TTL");
    },
  },
  {
    title: "delays the calls of a leaky bucket one after another",
    only: ["leaky-bucket"],
    needs: "fake time",
    async run(bench) {
      const { limiter } = await bench.create({ algorithm: "leaky-bucket", capacity: 3, leaksPerSecond: 10 });
      const delays: (number | undefined)[] = [];
      for (let i = 0; i < 3; i++) delays.push((await limiter.consume("user:1")).delayMs);
      checkEqual(delays, [0, 100, 200], "the delays of three concurrent calls");
      const denied = await limiter.consume("user:1");
      checkEqual([denied.allowed, denied.retryAfterMs, "delayMs" in denied], [false, 100, false], "the fourth");
    },
  },
];
