/** Contract cases for penalties: strikes, blocks that grow, and what is forgotten. */

import type { Charge } from "../../core/charge.ts";
import type { CompiledPolicy, Mode } from "../../core/compiled-policy.ts";
import type { Decision } from "../../core/decision.ts";
import type { RateLimiter } from "../../core/rate-limiter.ts";
import type { Store } from "../../core/store.ts";
import { concurrency } from "../../holds/concurrency.ts";
import { holdTerms } from "../../holds/hold-terms.ts";
import { combine } from "../../joint/combine.ts";
import { penalty } from "../../penalties/penalty.ts";
import { block, strike, unblock } from "../../penalties/strikes.ts";
import { compilePolicy } from "../../policy/compile-policy.ts";
import { bareLimiter } from "../bare-limiter.ts";
import { check, checkEqual } from "../check.ts";
import { compareGroupsWithPure } from "./compare-groups.ts";
import { applyGroup, charge, DAY, holdCharge, keysOfOneShard, type StoreLaw } from "./store-law.ts";

/** Blocks from the third strike on: 1 s, 2 s, 4 s and then 5 s each. One strike is forgotten per 3 s. */
const FORGET_MS = 3000;
const PENALTY = penalty({
  strikes: 3,
  blockMs: 1000,
  factor: 2,
  maxBlockMs: 5000,
  forgetMs: FORGET_MS,
  name: "penalty",
});
const RATE = { algorithm: "fixed-window", limit: 1, windowMs: DAY, name: "rate" } as const;

/** A rate that is used up, with its penalty, on the keys of one shard. */
async function usedUp(store: Store): Promise<{ rate: Charge; penalty: (mode?: Mode, name?: string) => Charge }> {
  const [a, b] = keysOfOneShard(store);
  const rate = compilePolicy(RATE);
  await store.apply([[charge(rate, a)]]);
  return {
    rate: charge(rate, a),
    penalty: (mode = "penalty", name = "penalty") => charge(compilePolicy({ ...PENALTY, name }), b, 1, mode),
  };
}

/** The strikes of a key, and how long it is blocked in ms. */
async function status(limiter: RateLimiter, key: string): Promise<[strikes: number, blockedMs: number]> {
  return statusOf(await limiter.peek(key));
}

/** The same by a decision. Strikes are forgotten one after the other, after the block. */
function statusOf({ resetAfterMs, retryAfterMs }: Decision): [strikes: number, blockedMs: number] {
  const blockedMs = retryAfterMs ?? 0;
  return [Math.ceil((resetAfterMs - blockedMs) / FORGET_MS), blockedMs];
}

/** What one attempt leads to: the milliseconds before it, the strikes after it, and the block. */
const TABLE: readonly (readonly [waitMs: number, strikes: number, blockedMs: number])[] = [
  [0, 1, 0],
  [0, 2, 0],
  [0, 3, 1000],
  // Denied by the block, which is not a violation.
  [400, 3, 600],
  [599, 3, 1],
  [1, 4, 2000],
  [2000, 5, 4000],
  [4000, 6, 5000],
  // The longest block. The number of strikes does not grow further.
  [5000, 6, 5000],
  // Nothing is forgotten during a block, and after it one strike per 3 s.
  [5000 + 2999, 6, 5000],
  [5000 + 3000, 6, 5000],
  [5000 + 6000, 5, 4000],
  [4000 + 12_000, 2, 0],
  [6000, 1, 0],
];

export const penaltyLaws: readonly StoreLaw[] = [
  {
    title: "H14: blocks for longer with each violation, up to the maximum, and forgets strikes outside of blocks",
    needs: "fake",
    async run(bench) {
      const { store, advance } = await bench.createTimed();
      const { rate, penalty } = await usedUp(store);
      const [, key] = keysOfOneShard(store);
      const limiter = bareLimiter(PENALTY, store);
      for (const [i, [waitMs, strikes, blockedMs]] of TABLE.entries()) {
        await advance?.(waitMs);
        const [, decision] = await applyGroup(store, rate, penalty());
        const subject = `attempt ${i + 1}`;
        checkEqual(await status(limiter, key), [strikes, blockedMs], subject);
        checkEqual(
          [decision?.allowed, decision?.remaining, decision?.retryAfterMs],
          blockedMs > 0 ? [false, 0, blockedMs] : [true, 2 ** 31 - 1 - strikes, undefined],
          `${subject}: the decision`,
        );
        check((decision?.resetAfterMs as number) > blockedMs, `${subject}: resetAfterMs of ${decision?.resetAfterMs}`);
      }
    },
  },
  {
    title: "H13: records one strike per penalty charge of a violation, in every mix of modes",
    async run(bench) {
      const cases: Record<string, { rate: Partial<Charge>; modes: readonly Mode[]; strikes: readonly number[] }> = {
        "a take that is denied": { rate: {}, modes: ["penalty"], strikes: [1] },
        "a hold that is denied": {
          rate: { mode: "hold", hold: holdTerms("h", 1000) },
          modes: ["penalty"],
          strikes: [1],
        },
        "two penalties": { rate: {}, modes: ["penalty", "penalty"], strikes: [1, 1] },
        "a penalty in mode peek": { rate: {}, modes: ["penalty", "peek"], strikes: [1, 0] },
        "only a penalty in mode peek": { rate: {}, modes: ["peek"], strikes: [0] },
        "a look": { rate: { mode: "peek" }, modes: ["penalty"], strikes: [0] },
        "a cost that never fits": { rate: { cost: 2 }, modes: ["penalty"], strikes: [0] },
        "an admitted group": { rate: { cost: 0 }, modes: ["penalty"], strikes: [0] },
        "a refund": { rate: { mode: "refund" }, modes: ["penalty"], strikes: [0] },
      };
      for (const [name, { rate: changes, modes, strikes }] of Object.entries(cases)) {
        const store = await bench.create();
        const { rate, penalty } = await usedUp(store);
        const penalties = modes.map((mode, i) => penalty(mode, `penalty ${i}`));
        await applyGroup(store, { ...rate, ...changes }, ...penalties);
        const recorded = await store.apply(penalties.map((one) => [{ ...one, mode: "peek" }]));
        checkEqual(
          recorded.map(([decision]) => statusOf(decision as Decision)[0]),
          strikes,
          name,
        );
      }
    },
  },
  {
    title: "H13: does not count a denial by a block, in either mode, and admits nothing beside it",
    async run(bench) {
      const store = await bench.create();
      const { rate, penalty } = await usedUp(store);
      const [first, second] = [penalty("penalty", "blocked"), penalty("penalty", "other")];
      await applyGroup(store, holdCharge(first.policy, first.key, 1, "block", 60_000));
      const free: CompiledPolicy = compilePolicy({ ...RATE, name: "free" });
      for (const blocked of [first, { ...first, mode: "peek" as const }]) {
        const decisions = await applyGroup(store, charge(free, rate.key), blocked, second);
        checkEqual(
          decisions.map(({ allowed, remaining }) => [allowed, remaining]),
          [
            [true, 1],
            [false, 0],
            [true, 2 ** 31 - 1],
          ],
          `beside a block in mode ${blocked.mode}`,
        );
        await applyGroup(store, rate, blocked, second);
      }
      const [decision] = await applyGroup(store, { ...second, mode: "peek" });
      checkEqual(statusOf(decision as Decision), [0, 0], "strikes of the other penalty");
    },
  },
  {
    title: "strikes, blocks and unblocks by hand, and never shortens a block but by unblock and reset",
    needs: "fake",
    async run(bench) {
      const { store, advance } = await bench.createTimed();
      const limiter = bareLimiter(PENALTY, store);
      check((await strike(limiter, "k"))?.allowed === true, "the first strike has blocked the key");
      check((await strike(limiter, "k", 2))?.allowed === false, "the third strike has not blocked the key");
      await strike(limiter, "k", 10);
      checkEqual(await status(limiter, "k"), [3, 1000], "struck while it was blocked");
      const { strikes = 3, blockedMs = 1000 } = await limiter.inspect("k");
      checkEqual([strikes, blockedMs], [3, 1000], "strikes and block of inspect, if it shows them");
      const longer = await block(limiter, "k", "1m");
      checkEqual([longer?.allowed, longer?.retryAfterMs], [false, 60_000], "blocked by hand");
      await advance?.(1000);
      await block(limiter, "k", 10);
      await limiter.refund("k", 1);
      checkEqual(await status(limiter, "k"), [2, 59_000], "a shorter block and a refund of one strike");
      checkEqual([await unblock(limiter, "k"), await unblock(limiter, "k")], [true, false], "unblocked twice");
      checkEqual(await status(limiter, "k"), [2, 0], "strikes after it was unblocked");
      checkEqual((await limiter.consume("k")).allowed, true, "whether it is admitted");
      await block(limiter, "k", "1h");
      await limiter.reset("k");
      checkEqual(await status(limiter, "k"), [0, 0], "after a reset");
      checkEqual((await limiter.inspect("k")).raw, null, "stored after a reset");
    },
  },
  {
    title: "H10: neither ends nor prolongs a block or a strike when the clock steps back",
    needs: "fake",
    async run(bench) {
      const { store, advance } = await bench.createTimed();
      const limiter = bareLimiter(PENALTY, store);
      await strike(limiter, "k", 3);
      await advance?.(-3_600_000);
      checkEqual(await status(limiter, "k"), [3, 1000], "an hour back");
      await block(limiter, "k", 1);
      await advance?.(999);
      checkEqual((await limiter.peek("k")).allowed, false, "allowed 1 ms before the block ends");
      await advance?.(1);
      checkEqual((await limiter.peek("k")).allowed, true, "allowed when the block has ended");
      await advance?.(8999);
      checkEqual(await status(limiter, "k"), [1, 0], "1 ms before the last strike is forgotten");
      await advance?.(1);
      checkEqual((await limiter.inspect("k")).raw, null, "stored after all strikes are forgotten");
    },
  },
  {
    title: "counts the denials of a combination, and reports the block",
    async run(bench) {
      const store = await bench.create();
      const login = combine([
        bareLimiter(RATE, store),
        bareLimiter({ ...PENALTY, blockMs: DAY, maxBlockMs: DAY }, store),
      ]);
      check((await login.consume("k")).allowed, "the first attempt was denied");
      for (const policy of ["rate", "rate", "penalty", "penalty"]) {
        const denied = await login.consume("k");
        checkEqual([denied.allowed, denied.policy], [false, policy], "an attempt");
        // A look is not a violation.
        await login.peek("k");
      }
    },
  },
  {
    title: "H16: makes the same decisions as the pure function in groups with rates",
    needs: "fake",
    async run(bench) {
      const rate = compilePolicy({ algorithm: "token-bucket", capacity: 3, tokensPerSecond: "3/1s", name: "rate" });
      const streams = compilePolicy(concurrency(2, { name: "streams" }));
      await compareGroupsWithPure(bench, [compilePolicy(PENALTY), rate, streams], 1000, 400);
    },
  },
];
