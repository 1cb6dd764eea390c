/** Contract cases for charges: cost, bound, liveness and denials. */
import { check, checkEqual } from "../check.ts";
import { type Admission, findExcess, leastAdmitted } from "../oracles.ts";
import { policyOf } from "../subject.ts";
import { advance, BUCKETS, drain, type Law, slow, windowPhase } from "./law.ts";

export const spendingLaws: readonly Law[] = [
  {
    title: "takes the cost and reports what is left",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 10));
      const first = await limiter.consume("user:1");
      checkEqual(
        [first.allowed, first.limit, first.remaining, "retryAfterMs" in first],
        [true, 10, 9, false],
        "the first charge",
      );
      const second = await limiter.consume("user:1", 3);
      checkEqual([second.allowed, second.remaining], [true, 6], "a cost of 3");
      check(second.resetAfterMs > 0 && second.nextAfterMs > 0, "a bucket in use has no reset or no next");
      check(second.nextAfterMs <= second.resetAfterMs, "nextAfterMs is later than resetAfterMs");
      if (limiter.consumeSync) checkEqual(limiter.consumeSync("user:1", 2).remaining, 4, "left after consumeSync");
    },
  },
  {
    title: "never spends a token twice under concurrency",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 10));
      const decisions = await Promise.all(Array.from({ length: 25 }, () => limiter.consume("user:1")));
      checkEqual(decisions.filter(({ allowed }) => allowed).length, 10, "admitted of 25 concurrent charges");
      const weighted = await Promise.all(Array.from({ length: 25 }, () => limiter.consume("user:2", 3)));
      checkEqual(weighted.filter(({ allowed }) => allowed).length, 3, "admitted of 25 concurrent charges of cost 3");
      checkEqual((await limiter.peek("user:2")).remaining, 1, "left after three of cost 3");
    },
  },
  {
    title: "never admits more than the bound in any interval",
    needs: "fake time",
    async run(bench) {
      const { random } = bench;
      const subject = await bench.create(policyOf(bench.algorithm, 7, 1000));
      const { limiter } = subject;
      const log: Admission[] = [];
      let now = await windowPhase(subject);
      for (let i = 0; i < 600; i++) {
        const step = random.pick([0, 0, 1, random.whole(2, 60), random.whole(100, 1500)]);
        await advance(subject, step);
        now += step;
        const cost = random.whole(1, 3);
        if ((await limiter.consume("user:1", cost)).allowed) log.push({ atMs: now, cost });
      }
      const excess = findExcess(log, limiter.getPolicy());
      check(excess === undefined, `more than the bound was admitted: ${JSON.stringify(excess)}`);
    },
  },
  {
    title: "loses no fraction of a token when saturated",
    needs: "fake time",
    only: BUCKETS,
    async run(bench) {
      for (const gap of [50, 70, 99]) {
        const subject = await bench.create(policyOf(bench.algorithm, 2, 200));
        let [admitted, elapsed] = [0, 0];
        for (; elapsed < 60_000; elapsed += gap) {
          if ((await subject.limiter.consume("user:1")).allowed) admitted++;
          await advance(subject, gap);
        }
        const least = leastAdmitted(subject.limiter.getPolicy(), elapsed - gap, 1);
        check(
          admitted >= least,
          `polled every ${gap} ms for a minute at 10/s: ${admitted} admitted, at least ${least} were due`,
        );
      }
    },
  },
  {
    title: "admits the limit in every window when saturated",
    needs: "fake time",
    only: ["fixed-window", "sliding-log"],
    async run(bench) {
      const subject = await bench.create(policyOf(bench.algorithm, 5, 1000));
      await advance(subject, 1000 - ((await windowPhase(subject)) % 1000));
      for (let window = 0; window < 20; window++) {
        let admitted = 0;
        for (let i = 0; i < 10; i++) if ((await subject.limiter.consume("user:1")).allowed) admitted++;
        checkEqual(admitted, 5, `admitted in window ${window}`);
        await advance(subject, 1000);
      }
    },
  },
  {
    title: "takes nothing and changes no stored state when it denies",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 10));
      await drain(limiter, "user:1", 8);
      const before = await limiter.inspect("user:1");
      for (let i = 0; i < 20; i++) {
        const decision = await limiter.consume("user:1", 5);
        checkEqual([decision.allowed, decision.remaining], [false, 2], "a cost of 5 with 2 left");
      }
      const after = await limiter.inspect("user:1");
      checkEqual([after.raw, after.remaining], [before.raw, 2], "state after 20 denials");
      check((await limiter.consume("user:1", 2)).allowed, "the remaining 2 were denied");
    },
  },
  {
    title: "denies a cost above the limit with retryAfterMs null and takes nothing",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 10));
      const decision = await limiter.consume("user:1", 11);
      checkEqual([decision.allowed, decision.remaining, decision.retryAfterMs], [false, 10, null], "cost 11 of 10");
      checkEqual((await limiter.inspect("user:1")).found, false, "state found after a denial");
      await drain(limiter, "user:1", 4);
      checkEqual(
        (await limiter.consume("user:1", 2 ** 31 - 1)).remaining,
        6,
        "remaining after the largest cost was denied",
      );
      await drain(limiter, "user:1", 6);
    },
  },
];
