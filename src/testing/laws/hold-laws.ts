/** Contract cases for holds on a policy with a rate: reserve an amount, settle the actual cost, renew, and what is denied. */
import type { CompiledPolicy } from "../../core/compiled-policy.ts";
import type { Decision } from "../../core/decision.ts";
import type { Store } from "../../core/store.ts";
import { hold, settle } from "../../holds/hold.ts";
import { holdAll } from "../../holds/hold-all.ts";
import type { Hold, HoldDecision } from "../../holds/hold-options.ts";
import { bareLimiter } from "../bare-limiter.ts";
import { check, checkEqual, checkRejects, comparedFields } from "../check.ts";
import { policyOf } from "../subject.ts";
import {
  applyGroup,
  applyOne,
  charge,
  compiledPolicy,
  DAY,
  holdCharge,
  keysOfOneShard,
  remainingOf,
  type StoreLaw,
  settleCharge,
} from "./store-law.ts";

/** The hold of an allowed decision. */
export function holdOf(decision: HoldDecision): Hold {
  check(decision.allowed, "a hold that fits was denied");
  return decision.hold;
}

function numbersOf({ allowed, remaining, held }: Decision): unknown[] {
  return [allowed, remaining, held];
}

/** The sum of a key's holds and debt. */
async function heldOf(store: Store, policy: CompiledPolicy, key: string): Promise<number> {
  return (await applyOne(store, charge(policy, key, 0, "peek"))).held ?? 0;
}

export const holdLaws: readonly StoreLaw[] = [
  {
    title: "H3: reserves an amount, and frees what the actual cost leaves of it at once",
    async run(bench) {
      const store = await bench.create();
      const policy = compiledPolicy(bench, 10, "tokens");
      checkEqual(numbersOf(await applyOne(store, holdCharge(policy, "k", 6))), [true, 4, 6], "a hold of 6");
      checkEqual(await heldOf(store, policy, "k"), 6, "held");
      checkEqual(numbersOf(await applyOne(store, charge(policy, "k", 5))), [false, 4, 6], "a take of 5 of 4");
      checkEqual(numbersOf(await applyOne(store, charge(policy, "k", 1))), [true, 3, 6], "a take of 1");
      checkEqual(
        numbersOf(await applyOne(store, settleCharge(policy, "k", 2))),
        [true, 7, undefined],
        "settled with 2",
      );
      checkEqual(await heldOf(store, policy, "k"), 0, "held after it was settled");
    },
  },
  {
    title: "H3: leaves no trace of a hold that was cancelled",
    async run(bench) {
      const store = await bench.create();
      const limiter = bareLimiter(policyOf(bench.algorithm, 10, DAY), store);
      const before = await limiter.peek("k");
      const held = holdOf(await hold(limiter, "k", 10, { forMs: "1h" }));
      checkEqual((await limiter.peek("k")).remaining, 0, "left while all is held");
      const { settled, remaining } = await held.cancel();
      checkEqual([settled, remaining], [true, 10], "after the hold was cancelled");
      checkEqual(comparedFields(await limiter.peek("k")), comparedFields(before), "a peek afterwards");
      checkEqual((await limiter.inspect("k")).found, false, "whether anything is stored");
    },
  },
  {
    title:
      "H2: charges more than the estimate, admits nothing while there is debt, and forgives what exceeds one limit",
    async run(bench) {
      const store = await bench.create();
      const policy = compiledPolicy(bench, 10, "debt");
      await applyOne(store, holdCharge(policy, "k", 4));
      const settled = await applyOne(store, settleCharge(policy, "k", 25));
      checkEqual([...numbersOf(settled), settled.forgiven], [true, 0, 10, 5], "settled with 25");
      checkEqual(await heldOf(store, policy, "k"), 10, "the debt");
      for (const denied of [
        await applyOne(store, charge(policy, "k")),
        await applyOne(store, holdCharge(policy, "k", 1)),
      ]) {
        checkEqual(numbersOf(denied), [false, 0, 10], "a charge while there is debt");
      }
      await applyOne(store, charge(policy, "k", 4, "refund"));
      checkEqual(await heldOf(store, policy, "k"), 6, "the debt after a refund of 4");
      await applyOne(store, charge(policy, "k", 0, "reset"));
      checkEqual(await remainingOf(store, policy, "k"), 10, "left after a reset");
    },
  },
  {
    title: "H5: settles a hold once, and holds an id once",
    async run(bench) {
      const store = await bench.create();
      const limiter = bareLimiter(policyOf(bench.algorithm, 10, DAY), store);
      const first = holdOf(await hold(limiter, "k", 3, { id: "job-1" }));
      holdOf(await hold(limiter, "k", 3, { id: "job-1" }));
      checkEqual((await limiter.peek("k")).held, 3, "held after the same id was held twice");
      const settlements = await Promise.all([first.settle(2), settle(limiter, "k", "job-1", 2), first.settle(2)]);
      checkEqual(settlements.filter(({ settled }) => settled).length, 1, "settlements of three that were applied");
      checkEqual((await limiter.peek("k")).remaining, 8, "left after three settlements of 2");
      const missing = await settle(limiter, "k", "never-held", 7);
      checkEqual([missing.settled, missing.remaining], [false, 8], "the settlement of a hold that never existed");
    },
  },
  {
    title:
      "H6: renews the same or a smaller amount always, a larger one if it fits, and else leaves the hold as it was",
    async run(bench) {
      const store = await bench.create();
      const limiter = bareLimiter(policyOf(bench.algorithm, 10, DAY), store);
      const ownHold = holdOf(await hold(limiter, "k", 4));
      await limiter.consume("k", 6);
      check((await ownHold.renew()).allowed, "a renewal for the same amount was denied");
      const denied = await ownHold.renew({ amount: 5 });
      checkEqual([...numbersOf(denied), ownHold.amount], [false, 0, 4, 4], "a renewal for more than fits");
      check((await ownHold.renew({ amount: 2 })).allowed, "a renewal for less was denied");
      checkEqual([(await limiter.peek("k")).held, ownHold.amount], [2, 2], "held after a renewal for 2");
      check((await ownHold.renew({ amount: 4 })).allowed, "a renewal for an amount that fits was denied");
      checkEqual((await limiter.peek("k")).remaining, 0, "left after a renewal for 4");
      checkEqual((await ownHold.settle()).settled, true, "settled");
      checkEqual((await limiter.peek("k")).remaining, 0, "left after it was settled in full");
    },
  },
  {
    title: "H8: denies an amount above the limit with retryAfterMs null, and stores nothing",
    async run(bench) {
      const store = await bench.create();
      const policy = compiledPolicy(bench, 10, "never");
      const denied = await applyOne(store, holdCharge(policy, "k", 11));
      checkEqual([denied.allowed, denied.retryAfterMs, denied.remaining], [false, null, 10], "a hold of 11 of 10");
      checkEqual((await store.inspect(policy, "k")).raw, null, "stored after it");
      await applyOne(store, holdCharge(policy, "k", 4));
      const renewal = await applyOne(store, holdCharge(policy, "k", 11));
      checkEqual([...numbersOf(renewal), renewal.retryAfterMs], [false, 6, 4, null], "a renewal for 11 of 10");
    },
  },
  {
    title: "H9: changes no stored state when it denies, peeks, or settles a missing hold",
    async run(bench) {
      const store = await bench.create();
      const policy = compiledPolicy(bench, 10, "written");
      await applyGroup(store, holdCharge(policy, "k", 7));
      const before = JSON.stringify((await store.inspect(policy, "k")).raw);
      await store.apply([
        [holdCharge(policy, "k", 4, "other")],
        [holdCharge(policy, "k", 11)],
        [charge(policy, "k", 4)],
        [charge(policy, "k", 3, "peek")],
        [charge(policy, "k", 4, "peek")],
        [settleCharge(policy, "k", 5, "missing")],
      ]);
      checkEqual(JSON.stringify((await store.inspect(policy, "k")).raw), before, "the stored value");
    },
  },
  {
    title: "shows holds and debt in inspect, if it shows any",
    async run(bench) {
      const store = await bench.create();
      const policy = compiledPolicy(bench, 10, "shown");
      await store.apply([[holdCharge(policy, "k", 3, "a")], [holdCharge(policy, "k", 4, "b")]]);
      const before = await store.inspect(policy, "k");
      checkEqual([before.found, before.remaining], [true, 3], "a key with holds");
      if (before.holds === undefined) return;
      checkEqual(
        before.holds.map(({ id, amount }) => [id, amount]),
        [
          ["a", 3],
          ["b", 4],
        ],
        "the holds",
      );
      check(
        before.holds.every(({ endsAfterMs }) => endsAfterMs > 0 && endsAfterMs <= 60_000),
        "a hold ends too late",
      );
      await store.apply([[settleCharge(policy, "k", 11, "a")], [settleCharge(policy, "k", 0, "b")]]);
      const { holds, debt } = await store.inspect(policy, "k");
      checkEqual([holds, debt], [undefined, 1], "after a settlement with 11 of 10");
    },
  },
  {
    title: "H11: settles a hold whose state was lost as a missing one",
    async run(bench) {
      const store = await bench.create();
      const limiter = bareLimiter(policyOf(bench.algorithm, 10, DAY), store);
      const ownHold = holdOf(await hold(limiter, "k", 4));
      await limiter.reset("k");
      const { settled, remaining, held } = await ownHold.settle(4);
      checkEqual([settled, remaining, held], [false, 10, undefined], "settled after the key was reset");
    },
  },
  {
    title: "H1: never holds or spends an amount twice in concurrent calls",
    async run(bench) {
      const store = await bench.create();
      const limiter = bareLimiter(policyOf(bench.algorithm, 10, DAY), store);
      const [held, taken] = await Promise.all([
        Promise.all(Array.from({ length: 15 }, () => hold(limiter, "k", 2))),
        Promise.all(Array.from({ length: 15 }, () => limiter.consume("k", 2))),
      ]);
      const admitted = [...held, ...taken].filter(({ allowed }) => allowed).length;
      checkEqual(admitted, 5, "admitted of 30 concurrent calls of 2");
      const holds = held.flatMap((decision) => (decision.allowed ? [decision.hold] : []));
      await Promise.all(holds.map((hold) => hold.settle(1)));
      checkEqual((await limiter.peek("k")).remaining, holds.length, "left after all were settled with 1");
    },
  },
  {
    title: "holds and takes in one group, all or nothing",
    async run(bench) {
      const store = await bench.create();
      const [tokens, requests] = [compiledPolicy(bench, 10, "tokens"), compiledPolicy(bench, 2, "requests")];
      const [a, b] = keysOfOneShard(store);
      const attempt = async (id: string) =>
        (await applyGroup(store, holdCharge(tokens, a, 3, id), charge(requests, b))).map(numbersOf);
      checkEqual(
        await attempt("one"),
        [
          [true, 7, 3],
          [true, 1, undefined],
        ],
        "a group that fits",
      );
      checkEqual(
        await attempt("two"),
        [
          [true, 4, 6],
          [true, 0, undefined],
        ],
        "another group that fits",
      );
      checkEqual(
        await attempt("three"),
        [
          [true, 4, 6],
          [false, 0, undefined],
        ],
        "a group that does not fit",
      );
      const [settled, taken] = await applyGroup(store, settleCharge(tokens, a, 1, "one"), charge(requests, b));
      checkEqual([settled?.allowed, taken?.allowed], [false, false], "a settlement in a denied group");
      const [one, two] = await store.apply([[settleCharge(tokens, a, 0, "one")], [settleCharge(tokens, a, 0, "two")]]);
      checkEqual([one?.[0]?.allowed, two?.[0]?.allowed], [true, true], "whether both holds still existed");
    },
  },
  {
    title: "holds and takes with holdAll(), and settles each charge with its own cost",
    async run(bench) {
      const store = await bench.create();
      const [tokens, bytes, requests] = ["tokens", "bytes", "requests"].map((name) =>
        bareLimiter(policyOf(bench.algorithm, 10, DAY, name), store),
      ) as [ReturnType<typeof bareLimiter>, ReturnType<typeof bareLimiter>, ReturnType<typeof bareLimiter>];
      const [a, b] = keysOfOneShard(store);
      const left = async () =>
        Promise.all([tokens.peek(a), bytes.peek(b), requests.peek(a)]).then((all) => all.map((one) => one.remaining));
      const charges = [
        { limiter: tokens, key: a, amount: 8 },
        { limiter: bytes, key: b, amount: 5 },
        { limiter: requests, key: a, cost: 1 },
      ] as const;
      const hold = holdOf(await holdAll(charges));
      checkEqual(await left(), [2, 5, 9], "left after holdAll");
      check(!(await holdAll(charges)).allowed, "a second holdAll of the same was admitted");
      checkEqual(await left(), [2, 5, 9], "left after a denied holdAll");
      checkEqual((await hold.settle([3, 5])).settled, true, "settled");
      checkEqual(await left(), [7, 5, 9], "left after it was settled");
    },
  },
  {
    title: "rejects an invalid id, duration, amount or actual cost, and changes nothing",
    async run(bench) {
      const store = await bench.create();
      const limiter = bareLimiter(policyOf(bench.algorithm, 10, DAY), store);
      for (const id of ["", "a b", "h".repeat(65), "\u00e9", 7 as never]) {
        await checkRejects(() => hold(limiter, "k", 1, { id }), "invalid-option", `a hold with the id ${id}`);
        await checkRejects(() => settle(limiter, "k", id, 1), "invalid-option", `a settlement of the id ${id}`);
      }
      await checkRejects(() => hold(limiter, "k", 1, { forMs: 0 }), "invalid-option", "a hold of 0 ms");
      await checkRejects(() => hold(limiter, "k", 1, { forMs: DAY + 1 }), "out-of-range", "a hold of more than a day");
      for (const amount of [0, -1, 1.5, Number.NaN, "2" as never]) {
        await checkRejects(() => hold(limiter, "k", amount), "invalid-cost", `a hold of ${amount}`);
      }
      for (const actual of [-1, 1.5, Number.NaN, "2" as never]) {
        await checkRejects(() => settle(limiter, "k", "h", actual), "invalid-cost", `a settlement with ${actual}`);
      }
      await checkRejects(() => hold(limiter, "", 1), "invalid-key", "a hold of the empty key");
      checkEqual((await limiter.inspect("k")).found, false, "whether anything is stored");
    },
  },
];
