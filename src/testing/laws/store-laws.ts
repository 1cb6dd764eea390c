/** Contract cases for a store that a single limiter does not cover. */

import type { Charge } from "../../core/charge.ts";
import type { CompiledPolicy } from "../../core/compiled-policy.ts";
import type { Decision } from "../../core/decision.ts";
import { compilePolicy } from "../../policy/compile-policy.ts";
import { bareLimiter } from "../bare-limiter.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import { PlanBounds, planBatches, planPair } from "../plan-charges.ts";
import { policyOf } from "../subject.ts";
import { windowPhase } from "./law.ts";
import { charge, compiledPolicy, DAY, remainingOf, type StoreLaw } from "./store-law.ts";

export const storeLaws: readonly StoreLaw[] = [
  {
    title: "keeps buckets of different names, prefixes and policies apart",
    async run(bench) {
      const store = await bench.create();
      const policies = [
        compiledPolicy(bench, 1, "a"),
        compiledPolicy(bench, 1, "b"),
        compiledPolicy(bench, 1, "a", { prefix: "p" }),
        compiledPolicy(bench, 1, "ap"),
        compiledPolicy(bench, 1, "pa"),
        compiledPolicy(bench, 1, "a", { prefix: "b" }),
        compilePolicy(policyOf(bench.algorithm, 1, DAY)),
        compilePolicy(policyOf(bench.algorithm, 1, DAY - 1000)),
        compilePolicy(policyOf(bench.algorithm, 2, DAY)),
      ];
      for (const policy of policies) {
        const [[decision] = []] = await store.apply([[charge(policy, "k")]]);
        check(decision?.allowed === true, `another policy spent the budget of ${policy.id}`);
      }
      const joined = [
        ["a", "b:c"],
        ["a:b", "c"],
        ["a:b:c", "d"],
        ["a", "b:c:d"],
        ["a}", "b"],
        ["a", "}b"],
      ] as const;
      for (const [name, key] of joined) {
        const [[decision] = []] = await store.apply([[charge(compiledPolicy(bench, 1, name), key)]]);
        check(decision?.allowed === true, `policy ${name} and key ${key} collide with another pair`);
      }
    },
  },
  {
    title: "keeps the state of a named policy when its limit changes",
    async run(bench) {
      const store = await bench.create();
      const [small, large] = [compiledPolicy(bench, 10, "plan"), compiledPolicy(bench, 20, "plan")];
      await store.apply([[charge(small, "k", 10)]]);
      check((await remainingOf(store, large, "k")) <= 10, "a raised limit started a new bucket");
      await store.apply([[charge(small, "k", 0, "reset")]]);
      await store.apply([[charge(large, "k", 4)]]);
      const afterwards = await remainingOf(store, small, "k");
      check(afterwards < 10, `a lowered limit leaves ${afterwards} of 10 after 4 were spent`);
    },
  },
  {
    title: "keeps each of two plans that share buckets within its own bound",
    needs: "fake",
    async run(bench) {
      // The smaller plan must not cap the stored count at its own limit: the larger plan has counted more.
      const shared = await bench.create();
      const [small, large] = [5, 50].map((limit) => compiledPolicy(bench, limit, "cut", { share: true })) as [
        CompiledPolicy,
        CompiledPolicy,
      ];
      await shared.apply([[charge(large, "k", 50)], [charge(small, "k", 1, "refund")]]);
      const refunded = small.refills ? 10 : 1;
      checkEqual(
        await remainingOf(shared, large, "k"),
        refunded,
        "left of 50 after the smaller plan refunded 1 of its 5",
      );
      for (let pair = 0; pair < 5; pair++) {
        const { store, advance } = await bench.createTimed();
        const plans = planPair(bench.algorithm, bench.random);
        const bounds = new PlanBounds(plans);
        const limiter = bareLimiter(policyOf(bench.algorithm, 1, plans[0].windowMs, "phase"), store);
        let now = await windowPhase({ limiter });
        for (const { advanceMs, groups } of planBatches(plans, bench.random, 150)) {
          await advance?.(advanceMs);
          now += advanceMs;
          const decisions = await store.apply(groups);
          for (const [i, [charge]] of groups.entries()) {
            bounds.record(charge as Charge, decisions[i]?.[0] as Decision, now);
          }
        }
      }
    },
  },
  {
    title: "starts new buckets for a named policy with another window or fill time",
    async run(bench) {
      const store = await bench.create();
      const [daily, short] = [DAY, 1000].map((spanMs) => compilePolicy(policyOf(bench.algorithm, 5, spanMs, "plan")));
      await store.apply([[charge(daily as CompiledPolicy, "k", 5)]]);
      await store.apply([[charge(short as CompiledPolicy, "k", 5)], [charge(short as CompiledPolicy, "k")]]);
      checkEqual(
        await remainingOf(store, daily as CompiledPolicy, "k"),
        0,
        "left of the daily plan after charges to the short one",
      );
    },
  },
  {
    title: "resets one policy and no other",
    async run(bench) {
      const store = await bench.create();
      const [a, b] = [compiledPolicy(bench, 2, "a"), compiledPolicy(bench, 2, "b")];
      await store.apply([[charge(a, "k", 2), charge(b, "k", 2)]]);
      await store.apply([[charge(a, "k", 0, "reset")]]);
      checkEqual(
        [await remainingOf(store, a, "k"), await remainingOf(store, b, "k")],
        [2, 0],
        "left after the reset of one",
      );
    },
  },
  {
    title: "returns the stored state from inspect",
    async run(bench) {
      const store = await bench.create();
      const policy = compiledPolicy(bench, 10, "shown");
      const before = await store.inspect(policy, "k");
      checkEqual(
        [before.policy, before.key, before.found, before.remaining, before.ttlMs, before.raw],
        ["shown", "k", false, 10, null, null],
        "before",
      );
      await store.apply([[charge(policy, "k", 3)]]);
      const after = await store.inspect(policy, "k");
      checkEqual([after.found, after.limit, after.remaining], [true, 10, 7], "after a charge of 3");
      check(after.ttlMs !== null && after.ttlMs > 0 && after.raw !== null, "a stored bucket has no value or no TTL");
    },
  },
  {
    title: "rejects calls after dispose, which may be called twice",
    async run(bench) {
      const store = await bench.create();
      const policy = compiledPolicy(bench, 2, "gone");
      await store.apply([[charge(policy, "k")]]);
      await store.dispose();
      await store.dispose();
      await checkRejects(() => store.apply([[charge(policy, "k")]]), "disposed", "apply after dispose");
    },
  },
];
