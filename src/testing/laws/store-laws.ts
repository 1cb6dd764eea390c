/** What a store promises of single charges beyond the laws of a limiter on it. */

import { compilePolicy } from "../../algorithms/compile-policy.ts";
import type { Charge } from "../../core/charge.ts";
import type { CompiledPolicy } from "../../core/compiled-policy.ts";
import type { Decision } from "../../core/decision.ts";
import { bareLimiter } from "../bare-limiter.ts";
import { check, refuses, same } from "../check.ts";
import { PlanBounds, planBatches, planPair } from "../plan-walk.ts";
import { policyOf } from "../subject.ts";
import { phase } from "./law.ts";
import { charge, compiledPolicy, DAY, left, type StoreLaw } from "./store-law.ts";

export const storeLaws: readonly StoreLaw[] = [
  {
    title: "law 11: the same key under another name, prefix or policy is another bucket",
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
        check(decision?.allowed === true, `policy ${name} and key ${key} run together with another pair`);
      }
    },
  },
  {
    title: "a policy whose numbers change keeps its state",
    async run(bench) {
      const store = await bench.create();
      const [small, large] = [compiledPolicy(bench, 10, "plan"), compiledPolicy(bench, 20, "plan")];
      await store.apply([[charge(small, "k", 10)]]);
      check((await left(store, large, "k")) <= 10, "a raised limit gave a fresh bucket");
      await store.apply([[charge(small, "k", 0, "reset")]]);
      await store.apply([[charge(large, "k", 4)]]);
      const rest = await left(store, small, "k");
      check(rest < 10, `a lowered limit leaves ${rest} of 10 after 4 were spent`);
    },
  },
  {
    title: "any interleaving of two plans stays within the bound of each",
    needs: "fake",
    async run(bench) {
      // A plan that sees no more than its own limit must not write that back: the other one has counted more.
      const shared = await bench.create();
      const [small, large] = [5, 50].map((limit) => compiledPolicy(bench, limit, "cut", { share: true })) as [
        CompiledPolicy,
        CompiledPolicy,
      ];
      await shared.apply([[charge(large, "k", 50)], [charge(small, "k", 1, "refund")]]);
      const given = small.refills ? 10 : 1;
      same(await left(shared, large, "k"), given, "left of 50 after the smaller plan gave 1 of its 5 back");
      for (let pair = 0; pair < 5; pair++) {
        const { store, advance } = await bench.createTimed();
        const plans = planPair(bench.algorithm, bench.random);
        const bounds = new PlanBounds(plans);
        const subject = bareLimiter({ ...policyOf(bench.algorithm, 1, plans[0].windowMs, "phase") }, store);
        let now = await phase({ limiter: subject });
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
    title: "a named policy with another window or fill time has buckets of its own",
    async run(bench) {
      const store = await bench.create();
      const [daily, short] = [DAY, 1000].map((spanMs) => compilePolicy(policyOf(bench.algorithm, 5, spanMs, "plan")));
      await store.apply([[charge(daily as CompiledPolicy, "k", 5)]]);
      await store.apply([[charge(short as CompiledPolicy, "k", 5)], [charge(short as CompiledPolicy, "k")]]);
      same(await left(store, daily as CompiledPolicy, "k"), 0, "left of the daily plan after charges to the short one");
    },
  },
  {
    title: "reset of one policy leaves the others alone",
    async run(bench) {
      const store = await bench.create();
      const [a, b] = [compiledPolicy(bench, 2, "a"), compiledPolicy(bench, 2, "b")];
      await store.apply([[charge(a, "k", 2), charge(b, "k", 2)]]);
      await store.apply([[charge(a, "k", 0, "reset")]]);
      same([await left(store, a, "k"), await left(store, b, "k")], [2, 0], "left after the reset of one");
    },
  },
  {
    title: "inspect shows what is kept",
    async run(bench) {
      const store = await bench.create();
      const policy = compiledPolicy(bench, 10, "shown");
      const before = await store.inspect(policy, "k");
      same(
        [before.policy, before.key, before.found, before.remaining, before.ttlMs, before.raw],
        ["shown", "k", false, 10, null, null],
        "before",
      );
      await store.apply([[charge(policy, "k", 3)]]);
      const after = await store.inspect(policy, "k");
      same([after.found, after.limit, after.remaining], [true, 10, 7], "after a charge of 3");
      check(
        after.ttlMs !== null && after.ttlMs > 0 && after.raw !== null,
        "a kept bucket has a value and a time to live",
      );
    },
  },
  {
    title: "dispose ends the store, and may be called twice",
    async run(bench) {
      const store = await bench.create();
      const policy = compiledPolicy(bench, 2, "gone");
      await store.apply([[charge(policy, "k")]]);
      await store.dispose();
      await store.dispose();
      await refuses(() => store.apply([[charge(policy, "k")]]), "disposed", "take after dispose");
    },
  },
];
