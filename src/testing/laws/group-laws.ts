/** Contract cases for groups of charges, combine() and consumeAll(). */
import type { Mode } from "../../core/compiled-policy.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import { combine } from "../../joint/combine.ts";
import { consumeAll } from "../../joint/consume-all.ts";
import { bareLimiter } from "../bare-limiter.ts";
import { check, checkEqual } from "../check.ts";
import { policyOf } from "../subject.ts";
import { charge, compiledPolicy, DAY, keysOfOneShard, remainingOf, type StoreLaw } from "./store-law.ts";

export const groupLaws: readonly StoreLaw[] = [
  {
    title: "charges all of a group or nothing, and reports the numbers of a denied group as untaken",
    async run(bench) {
      const store = await bench.create();
      const [wide, narrow] = [compiledPolicy(bench, 10, "wide"), compiledPolicy(bench, 3, "narrow")];
      const [a, b] = keysOfOneShard(store);
      const [first] = await store.apply([[charge(wide, a, 2), charge(narrow, b, 2)]]);
      checkEqual(
        first?.map(({ allowed, remaining }) => [allowed, remaining]),
        [
          [true, 8],
          [true, 1],
        ],
        "a group that fits",
      );
      const [second] = await store.apply([[charge(wide, a, 2), charge(narrow, b, 2)]]);
      checkEqual(
        second?.map(({ allowed, remaining }) => [allowed, remaining]),
        [
          [true, 8],
          [false, 1],
        ],
        "a group with a charge that does not fit",
      );
      checkEqual(
        [await remainingOf(store, wide, a), await remainingOf(store, narrow, b)],
        [8, 1],
        "left after the denied group",
      );
      const [third] = await store.apply([[charge(wide, a, 2), charge(narrow, b, 4)]]);
      checkEqual(
        third?.map(({ allowed, retryAfterMs }) => [allowed, retryAfterMs]),
        [
          [true, undefined],
          [false, null],
        ],
        "a group with a charge that never fits",
      );
      checkEqual(await remainingOf(store, wide, a), 8, "left after a group that never fits");
    },
  },
  {
    title:
      "takes a penalty charge if another charge of its group is denied, and denies the group once the penalty is full",
    async run(bench) {
      const store = await bench.create();
      const [rate, penalty] = [compiledPolicy(bench, 1, "rate"), compiledPolicy(bench, 2, "penalty")];
      const [a, b] = keysOfOneShard(store);
      const attempt = async (cost: number, mode: Mode = "take") => {
        const [decisions] = await store.apply([[charge(rate, a, cost, mode), charge(penalty, b, 1, "penalty")]]);
        return decisions?.map(({ allowed, remaining }) => [allowed, remaining]);
      };
      const expected = (rateDecision: [boolean, number], penaltyDecision: [boolean, number]) => [
        rateDecision,
        penaltyDecision,
      ];
      checkEqual(await attempt(1), expected([true, 0], [true, 2]), "an admitted group");
      checkEqual(await attempt(2), expected([false, 0], [true, 2]), "a cost that never fits is not a violation");
      checkEqual(await attempt(1, "peek"), expected([false, 0], [true, 2]), "a peek is not a violation");
      checkEqual(await attempt(1), expected([false, 0], [true, 1]), "a violation");
      checkEqual(await attempt(1), expected([false, 0], [false, 0]), "the violation that uses up the penalty");
      await store.apply([[charge(rate, a, 0, "reset")]]);
      checkEqual(await attempt(1), expected([true, 1], [false, 0]), "a group that the penalty denies");
      checkEqual([await remainingOf(store, rate, a), await remainingOf(store, penalty, b)], [1, 0], "left afterwards");
    },
  },
  {
    title: "decides groups in order and independently",
    async run(bench) {
      const store = await bench.create();
      const policy = compiledPolicy(bench, 10, "order");
      const decisions = await store.apply([
        [charge(policy, "a", 6)],
        [charge(policy, "a", 6)],
        [charge(policy, "a", 4)],
        [charge(policy, "b", 10)],
      ]);
      checkEqual(
        decisions.map(([decision]) => decision?.allowed),
        [true, false, true, true],
        "allowed in order",
      );
      checkEqual(
        decisions.map(([decision]) => decision?.remaining),
        [4, 4, 0, 0],
        "left in order",
      );
    },
  },
  {
    title: "never spends a token twice in concurrent groups",
    async run(bench) {
      const store = await bench.create();
      const [wide, narrow] = [compiledPolicy(bench, 100, "wide"), compiledPolicy(bench, 5, "narrow")];
      const groups = await Promise.all(
        Array.from({ length: 30 }, () => store.apply([[charge(wide, "a"), charge(narrow, "a")]])),
      );
      checkEqual(
        groups.filter(([group]) => group?.every(({ allowed }) => allowed)).length,
        5,
        "groups admitted of 30 concurrent ones",
      );
      checkEqual(
        [await remainingOf(store, wide, "a"), await remainingOf(store, narrow, "a")],
        [95, 0],
        "left of each policy",
      );
    },
  },
  {
    title: "supports take, peek and refund in one group",
    async run(bench) {
      const store = await bench.create();
      const [a, b, c] = [
        compiledPolicy(bench, 10, "a"),
        compiledPolicy(bench, 10, "b"),
        compiledPolicy(bench, 10, "c"),
      ];
      await store.apply([[charge(a, "k", 5), charge(b, "k", 5), charge(c, "k", 5)]]);
      const [group] = await store.apply([[charge(a, "k", 1), charge(b, "k", 1, "peek"), charge(c, "k", 1, "refund")]]);
      checkEqual(
        group?.map(({ allowed, remaining }) => [allowed, remaining]),
        [
          [true, 4],
          [true, 5],
          [true, 6],
        ],
        "take, peek, refund",
      );
      checkEqual(
        [await remainingOf(store, a, "k"), await remainingOf(store, b, "k"), await remainingOf(store, c, "k")],
        [4, 5, 6],
        "left",
      );
    },
  },
  {
    title: "clamps state dated in the future when a group is denied, and recovers within one full refill",
    needs: "fake",
    async run(bench) {
      const { store, advance } = await bench.createTimed();
      const [empty, ample] = [5, 1000].map((limit) =>
        bareLimiter(policyOf(bench.algorithm, limit, 1000, `clamp ${limit}`), store),
      ) as [RateLimiter, RateLimiter];
      const both = combine([empty, ample]);
      check((await both.consume("k", 5)).allowed, "a charge that fits");
      await advance?.(-3_600_000);
      check(!(await both.consume("k", 5)).allowed, "an hour back: a charge was admitted from an empty bucket");
      await advance?.(bench.algorithm === "sliding-window" ? 2000 : 1000);
      check((await both.consume("k", 5)).allowed, "an hour back: still denied a full refill later");
    },
  },
  {
    title: "decides a group of sixteen charges",
    async run(bench) {
      const store = await bench.create();
      const policies = Array.from({ length: 16 }, (_, i) => compiledPolicy(bench, 2, `p${i}`));
      for (const expected of [true, true, false]) {
        const [group] = await store.apply([policies.map((policy) => charge(policy, "k"))]);
        checkEqual(group?.length, 16, "decisions of a group of 16");
        checkEqual(
          group?.every(({ allowed }) => allowed),
          expected,
          "allowed",
        );
      }
    },
  },
  {
    title: "charges all policies of combine() or none",
    async run(bench) {
      const store = await bench.create();
      const burst = bareLimiter(policyOf(bench.algorithm, 5, DAY, "burst"), store);
      const daily = bareLimiter(policyOf(bench.algorithm, 8, DAY, "daily"), store);
      const both = combine([burst, daily]);
      const first = await both.consume("k", 4);
      checkEqual(
        [first.allowed, first.policy, first.remaining, first.parts?.map(({ remaining }) => remaining)],
        [true, "burst", 1, [1, 4]],
        "a charge of 4",
      );
      const second = await both.consume("k", 2);
      checkEqual(
        [second.allowed, second.policy, second.parts?.map(({ allowed, remaining }) => [allowed, remaining])],
        [
          false,
          "burst",
          [
            [false, 1],
            [true, 4],
          ],
        ],
        "a charge of 2",
      );
      const never = await both.consume("k", 6);
      checkEqual(
        [never.allowed, never.retryAfterMs, never.policy],
        [false, null, "burst"],
        "a cost that never fits one part",
      );
      await both.refund("k", 1);
      checkEqual(
        [(await burst.peek("k")).remaining, (await daily.peek("k")).remaining],
        [2, 5],
        "left after a refund of 1",
      );
    },
  },
  {
    title: "charges all keys of consumeAll() or none, and adds up charges to one bucket",
    async run(bench) {
      const store = await bench.create();
      const user = bareLimiter(policyOf(bench.algorithm, 3, DAY, "user"), store);
      const ip = bareLimiter(policyOf(bench.algorithm, 2, DAY, "ip"), store);
      const spend = () =>
        consumeAll([
          { limiter: user, key: "u" },
          { limiter: ip, key: "a" },
        ]);
      checkEqual(
        [(await spend()).allowed, (await spend()).allowed, (await spend()).allowed],
        [true, true, false],
        "three in a row",
      );
      checkEqual([(await user.peek("u")).remaining, (await ip.peek("a")).remaining], [1, 0], "left");
      const twice = await consumeAll([
        { limiter: user, key: "u" },
        { limiter: user, key: "u" },
      ]);
      checkEqual([twice.allowed, (await user.peek("u")).remaining], [false, 1], "one bucket charged twice with 1 left");
    },
  },
];
