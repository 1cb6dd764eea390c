/** The laws of a store: what it promises beyond those of a limiter on it. */
import type { Charge, Mode } from "../../core/charge.ts";
import type { Decision } from "../../core/decision.ts";
import type { AlgorithmName, Policy } from "../../core/policy.ts";
import type { Store } from "../../core/store.ts";
import { resolvePolicy, type Terms } from "../../core/terms.ts";
import { combine, consumeAll } from "../../limiter/combine.ts";
import { createLimiter } from "../../limiter/create-limiter.ts";
import { check, refuses, same } from "../check.ts";
import type { Random } from "../random.ts";
import { policyOf } from "../subject.ts";

/** What a law of stores is tried on. */
interface StoreBench {
  readonly algorithm: AlgorithmName;
  readonly random: Random;
  /** A fresh store. */
  create(): Promise<Store>;
}

/** One law of stores. */
interface StoreLaw {
  readonly title: string;
  run(bench: StoreBench): Promise<void>;
}

const DAY = 86_400_000;

/** Terms that do not refill while a case runs. */
function termsOf({ algorithm }: StoreBench, limit: number, name: string, more: Partial<Policy> = {}): Terms {
  return resolvePolicy({ ...policyOf(algorithm, limit, DAY, name), ...more } as Policy);
}

function charge(terms: Terms, key: string, cost = 1, mode: Mode = "take"): Charge {
  return { terms, key, cost, mode };
}

async function left(store: Store, terms: Terms, key: string): Promise<number> {
  const [[decision] = []] = await store.take([[charge(terms, key, 0, "peek")]]);
  return (decision as Decision).remaining;
}

export const storeLaws: readonly StoreLaw[] = [
  {
    title: "a group is all or none, and a denied one reports untaken figures",
    async run(bench) {
      const store = await bench.create();
      const [wide, narrow] = [termsOf(bench, 10, "wide"), termsOf(bench, 3, "narrow")];
      const [first] = await store.take([[charge(wide, "a", 2), charge(narrow, "b", 2)]]);
      same(
        first?.map(({ allowed, remaining }) => [allowed, remaining]),
        [
          [true, 8],
          [true, 1],
        ],
        "a group that fits",
      );
      const [second] = await store.take([[charge(wide, "a", 2), charge(narrow, "b", 2)]]);
      same(
        second?.map(({ allowed, remaining }) => [allowed, remaining]),
        [
          [true, 8],
          [false, 1],
        ],
        "a group of which a part does not fit",
      );
      same([await left(store, wide, "a"), await left(store, narrow, "b")], [8, 1], "left after the denied group");
      const [third] = await store.take([[charge(wide, "a", 2), charge(narrow, "b", 4)]]);
      same(
        third?.map(({ allowed, retryAfterMs }) => [allowed, retryAfterMs]),
        [
          [true, undefined],
          [false, null],
        ],
        "a group of which a part never fits",
      );
      same(await left(store, wide, "a"), 8, "left after a group that never fits");
    },
  },
  {
    title: "groups are independent and in order",
    async run(bench) {
      const store = await bench.create();
      const terms = termsOf(bench, 10, "order");
      const decisions = await store.take([
        [charge(terms, "a", 6)],
        [charge(terms, "a", 6)],
        [charge(terms, "a", 4)],
        [charge(terms, "b", 10)],
      ]);
      same(
        decisions.map(([decision]) => decision?.allowed),
        [true, false, true, true],
        "allowed in turn",
      );
      same(
        decisions.map(([decision]) => decision?.remaining),
        [4, 4, 0, 0],
        "left in turn",
      );
    },
  },
  {
    title: "concurrent groups never spend the same token twice",
    async run(bench) {
      const store = await bench.create();
      const [wide, narrow] = [termsOf(bench, 100, "wide"), termsOf(bench, 5, "narrow")];
      const groups = await Promise.all(
        Array.from({ length: 30 }, () => store.take([[charge(wide, "a"), charge(narrow, "a")]])),
      );
      same(
        groups.filter(([group]) => group?.every(({ allowed }) => allowed)).length,
        5,
        "groups admitted of 30 at once",
      );
      same([await left(store, wide, "a"), await left(store, narrow, "a")], [95, 0], "left of either policy");
    },
  },
  {
    title: "charges of one group may take, look and give back",
    async run(bench) {
      const store = await bench.create();
      const [a, b, c] = [termsOf(bench, 10, "a"), termsOf(bench, 10, "b"), termsOf(bench, 10, "c")];
      await store.take([[charge(a, "k", 5), charge(b, "k", 5), charge(c, "k", 5)]]);
      const [group] = await store.take([[charge(a, "k", 1), charge(b, "k", 1, "peek"), charge(c, "k", 1, "refund")]]);
      same(
        group?.map(({ allowed, remaining }) => [allowed, remaining]),
        [
          [true, 4],
          [true, 5],
          [true, 6],
        ],
        "take, peek, refund",
      );
      same([await left(store, a, "k"), await left(store, b, "k"), await left(store, c, "k")], [4, 5, 6], "left");
    },
  },
  {
    title: "a group may hold sixteen charges",
    async run(bench) {
      const store = await bench.create();
      const terms = Array.from({ length: 16 }, (_, i) => termsOf(bench, 2, `p${i}`));
      for (const expected of [true, true, false]) {
        const [group] = await store.take([terms.map((one) => charge(one, "k"))]);
        same(group?.length, 16, "decisions of a group of 16");
        same(
          group?.every(({ allowed }) => allowed),
          expected,
          "allowed",
        );
      }
    },
  },
  {
    title: "law 11: the same key under another name, prefix or policy is another bucket",
    async run(bench) {
      const store = await bench.create();
      const policies = [
        termsOf(bench, 1, "a"),
        termsOf(bench, 1, "b"),
        termsOf(bench, 1, "a", { prefix: "p" }),
        termsOf(bench, 1, "ap"),
        termsOf(bench, 1, "pa"),
        termsOf(bench, 1, "a", { prefix: "b" }),
        resolvePolicy(policyOf(bench.algorithm, 1, DAY)),
        resolvePolicy(policyOf(bench.algorithm, 1, DAY - 1000)),
        resolvePolicy(policyOf(bench.algorithm, 2, DAY)),
      ];
      for (const terms of policies) {
        const [[decision] = []] = await store.take([[charge(terms, "k")]]);
        check(decision?.allowed === true, `another policy spent the budget of ${terms.bucket}`);
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
        const [[decision] = []] = await store.take([[charge(termsOf(bench, 1, name), key)]]);
        check(decision?.allowed === true, `policy ${name} and key ${key} run together with another pair`);
      }
    },
  },
  {
    title: "a policy whose numbers change keeps its state",
    async run(bench) {
      const store = await bench.create();
      const [small, large] = [termsOf(bench, 10, "plan"), termsOf(bench, 20, "plan")];
      await store.take([[charge(small, "k", 10)]]);
      check((await left(store, large, "k")) <= 10, "a raised limit gave a fresh bucket");
      await store.reset(small, "k");
      await store.take([[charge(large, "k", 4)]]);
      const rest = await left(store, small, "k");
      check(rest <= 10 && rest < 10, `a lowered limit leaves ${rest} of 10 after 4 were spent`);
    },
  },
  {
    title: "reset of one policy leaves the others alone",
    async run(bench) {
      const store = await bench.create();
      const [a, b] = [termsOf(bench, 2, "a"), termsOf(bench, 2, "b")];
      await store.take([[charge(a, "k", 2), charge(b, "k", 2)]]);
      await store.reset(a, "k");
      same([await left(store, a, "k"), await left(store, b, "k")], [2, 0], "left after the reset of one");
    },
  },
  {
    title: "inspect shows what is kept",
    async run(bench) {
      const store = await bench.create();
      const terms = termsOf(bench, 10, "shown");
      const before = await store.inspect(terms, "k");
      same(
        [before.policy, before.key, before.found, before.remaining, before.ttlMs, before.raw],
        ["shown", "k", false, 10, null, null],
        "before",
      );
      await store.take([[charge(terms, "k", 3)]]);
      const after = await store.inspect(terms, "k");
      same([after.found, after.limit, after.remaining], [true, 10, 7], "after a charge of 3");
      check(
        after.ttlMs !== null && after.ttlMs > 0 && after.raw !== null,
        "a kept bucket has a value and a time to live",
      );
    },
  },
  {
    title: "combine asks several policies in one step, all or none",
    async run(bench) {
      const store = await bench.create();
      const burst = createLimiter({ policy: policyOf(bench.algorithm, 5, DAY, "burst"), store });
      const daily = createLimiter({ policy: policyOf(bench.algorithm, 8, DAY, "daily"), store });
      const both = combine([burst, daily]);
      const first = await both.consume("k", 4);
      same(
        [first.allowed, first.policy, first.remaining, first.parts?.map(({ remaining }) => remaining)],
        [true, "burst", 1, [1, 4]],
        "a charge of 4",
      );
      const second = await both.consume("k", 2);
      same(
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
      same(
        [never.allowed, never.retryAfterMs, never.policy],
        [false, null, "burst"],
        "a cost that never fits one part",
      );
      await both.refund("k", 1);
      same([(await burst.peek("k")).remaining, (await daily.peek("k")).remaining], [2, 5], "left after a refund of 1");
    },
  },
  {
    title: "consumeAll charges several keys, all or none, and sums what falls on one bucket",
    async run(bench) {
      const store = await bench.create();
      const user = createLimiter({ policy: policyOf(bench.algorithm, 3, DAY, "user"), store });
      const address = createLimiter({ policy: policyOf(bench.algorithm, 2, DAY, "address"), store });
      const spend = () =>
        consumeAll([
          { limiter: user, key: "u" },
          { limiter: address, key: "a" },
        ]);
      same(
        [(await spend()).allowed, (await spend()).allowed, (await spend()).allowed],
        [true, true, false],
        "three in turn",
      );
      same([(await user.peek("u")).remaining, (await address.peek("a")).remaining], [1, 0], "left");
      const twice = await consumeAll([
        { limiter: user, key: "u" },
        { limiter: user, key: "u" },
      ]);
      same([twice.allowed, (await user.peek("u")).remaining], [false, 1], "one bucket named twice with 1 left");
    },
  },
  {
    title: "dispose ends the store, and may be called twice",
    async run(bench) {
      const store = await bench.create();
      const terms = termsOf(bench, 2, "gone");
      await store.take([[charge(terms, "k")]]);
      await store.dispose();
      await store.dispose();
      await refuses(() => store.take([[charge(terms, "k")]]), "disposed", "take after dispose");
    },
  },
];
