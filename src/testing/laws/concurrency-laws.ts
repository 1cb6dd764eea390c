/** Contract cases for concurrency limits: how much is held at once, and leases that end. */

import type { CompiledPolicy } from "../../core/compiled-policy.ts";
import type { Policy } from "../../core/policy.ts";
import { concurrency } from "../../holds/concurrency.ts";
import { hold } from "../../holds/hold.ts";
import { combine } from "../../joint/combine.ts";
import { compilePolicy } from "../../policy/compile-policy.ts";
import { bareLimiter } from "../bare-limiter.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import { compareGroupsWithPure } from "./compare-groups.ts";
import { holdOf } from "./hold-laws.ts";
import { applyOne, charge, DAY, holdCharge, type StoreLaw, settleCharge } from "./store-law.ts";

function concurrent(limit: number, name = "streams", leaseMs = 60_000): CompiledPolicy {
  return compilePolicy(concurrency(limit, { leaseMs, name }));
}

export const concurrencyLaws: readonly StoreLaw[] = [
  {
    title: "admits as many holds at once as its limit, and another as soon as one is settled",
    async run(bench) {
      const limiter = bareLimiter(concurrency(3), await bench.create());
      const decisions = await Promise.all(Array.from({ length: 10 }, () => hold(limiter, "k")));
      const holds = decisions.flatMap((decision) => (decision.allowed ? [decision.hold] : []));
      checkEqual(holds.length, 3, "admitted of 10 concurrent holds");
      const { remaining, held } = await limiter.peek("k");
      checkEqual([remaining, held], [0, 3], "left while three are held");
      check((await hold(limiter, "another key")).allowed, "another key was denied");
      const settled = await holds[0]?.settle();
      checkEqual([settled?.settled, settled?.remaining, settled?.held], [true, 1, 2], "after one was settled");
      check((await hold(limiter, "k")).allowed, "a hold was denied after another was settled");
      check(!(await hold(limiter, "k")).allowed, "a fourth hold was admitted");
    },
  },
  {
    title: "admits exactly its limit of 200 simultaneous holds, from two limiters",
    async run(bench) {
      const store = await bench.create();
      const policy: Policy = concurrency(17, { name: "simultaneous", share: true });
      const limiters = [bareLimiter(policy, store), bareLimiter(policy, store)];
      const calls = Array.from({ length: 200 }, (_, i) => hold(limiters[i % 2] as (typeof limiters)[0], "k"));
      const admitted = (await Promise.all(calls)).filter(({ allowed }) => allowed);
      checkEqual(admitted.length, 17, "admitted of 200 simultaneous holds");
    },
  },
  {
    title: "counts the amounts of holds, and resizes a lease under its id",
    async run(bench) {
      const store = await bench.create();
      const policy = concurrent(10);
      const resize = async (amount: number, id: string) => {
        const { allowed, remaining, held } = await applyOne(store, holdCharge(policy, "k", amount, id));
        return [allowed, remaining, held];
      };
      checkEqual(await resize(6, "a"), [true, 4, 6], "6 in one process");
      checkEqual(await resize(5, "b"), [false, 4, 6], "5 in another one");
      checkEqual(await resize(4, "b"), [true, 0, 10], "4 in another one");
      checkEqual(await resize(7, "a"), [false, 0, 10], "one more in the first one");
      checkEqual(await resize(2, "a"), [true, 4, 6], "four fewer in the first one");
      checkEqual(await resize(11, "c"), [false, 4, 6], "more than the limit");
      const { allowed, remaining } = await applyOne(store, settleCharge(policy, "k", 0, "a"));
      checkEqual([allowed, remaining], [true, 6], "after the first one has settled");
    },
  },
  {
    title: "charges nothing when a hold is settled, whatever the cost, and takes nothing",
    async run(bench) {
      const store = await bench.create();
      const policy = concurrent(2);
      await applyOne(store, holdCharge(policy, "k", 2));
      await applyOne(store, settleCharge(policy, "k", 1000));
      await applyOne(store, charge(policy, "k", 2));
      const { remaining, held, resetAfterMs } = await applyOne(store, charge(policy, "k", 1, "peek"));
      checkEqual([remaining, held, resetAfterMs], [2, undefined, 0], "left");
      checkEqual((await store.inspect(policy, "k")).raw, null, "stored");
    },
  },
  {
    title: "rejects consume(), also in a combination, because that would limit nothing",
    async run(bench) {
      const store = await bench.create();
      const streams = bareLimiter(concurrency(2, { name: "streams" }), store);
      const requests = bareLimiter({ algorithm: "fixed-window", limit: 5, windowMs: DAY, name: "requests" }, store);
      const both = combine([requests, streams]);
      await checkRejects(() => streams.consume("k"), "unsupported", "consume on a concurrency limit");
      await checkRejects(() => both.consume("k"), "unsupported", "consume on a combination with one");
      checkEqual((await requests.peek("k")).remaining, 5, "left of the other limit");
    },
  },
  {
    title: "counts one per hold of a combination, whatever the amount of the rates",
    async run(bench) {
      const store = await bench.create();
      const streams = bareLimiter(concurrency(2, { name: "streams" }), store);
      const tokens = bareLimiter({ algorithm: "fixed-window", limit: 100, windowMs: DAY, name: "tokens" }, store);
      const both = combine([tokens, streams]);
      const first = holdOf(await hold(both, "k", 40));
      holdOf(await hold(both, "k", 40));
      checkEqual([(await tokens.peek("k")).remaining, (await streams.peek("k")).remaining], [20, 0], "left of each");
      const denied = await hold(both, "k", 1);
      checkEqual([denied.allowed, denied.policy], [false, "streams"], "a third hold");
      await first.settle(10);
      checkEqual([(await tokens.peek("k")).remaining, (await streams.peek("k")).remaining], [50, 1], "left after one");
    },
  },
  {
    title: "shares leases between plans with another limit or lease of one name",
    async run(bench) {
      const store = await bench.create();
      const [small, large] = [concurrent(2, "plan", 1000), concurrent(5, "plan", 2000)];
      for (const id of ["a", "b", "c"]) await applyOne(store, holdCharge(large, "k", 1, id));
      const [first, second] = [
        await applyOne(store, holdCharge(small, "k", 1, "d")),
        await applyOne(store, holdCharge(large, "k", 1, "d")),
      ];
      checkEqual([first.allowed, first.remaining, first.held], [false, 0, 3], "a hold under the smaller plan");
      checkEqual([second.allowed, second.remaining, second.held], [true, 1, 4], "a hold under the larger plan");
    },
  },
  {
    title: "H12: frees a lease that is not renewed at its end, and not 1 ms earlier",
    needs: "fake",
    async run(bench) {
      const { store, advance } = await bench.createTimed();
      const limiter = bareLimiter(concurrency(2, { leaseMs: 1000 }), store);
      const first = holdOf(await hold(limiter, "k"));
      await advance?.(400);
      const second = holdOf(await hold(limiter, "k"));
      const denied = await hold(limiter, "k");
      check(!denied.allowed, "a third hold was admitted");
      checkEqual([denied.retryAfterMs, denied.earliestRetryMs], [600, 1], "waits of a denied hold");
      await advance?.(599);
      check(!(await hold(limiter, "k")).allowed, "admitted 1 ms before a lease has ended");
      check((await second.renew()).allowed, "a renewal was denied");
      await advance?.(1);
      const third = holdOf(await hold(limiter, "k"));
      checkEqual((await first.settle()).settled, false, "settled after its lease has ended");
      check(!(await first.renew()).allowed, "a lease that has ended was renewed beside two others");
      await advance?.(998);
      checkEqual((await limiter.peek("k")).held, 2, "held 1 ms before the renewed lease ends");
      await advance?.(1);
      checkEqual((await limiter.peek("k")).held, 1, "held at the end of the renewed lease");
      checkEqual((await third.settle()).settled, true, "settled before its lease has ended");
      checkEqual((await limiter.inspect("k")).raw, null, "stored when nothing is held");
    },
  },
  {
    title: "H16: makes the same decisions as the pure function, also in groups with a rate",
    needs: "fake",
    async run(bench) {
      const requests = compilePolicy({ algorithm: "fixed-window", limit: 8, windowMs: 1000, name: "requests" });
      const plans = [concurrent(4, "plan", 1000), concurrent(9, "plan", 1000), requests];
      await compareGroupsWithPure(bench, plans, 1000, 400);
    },
  },
];
