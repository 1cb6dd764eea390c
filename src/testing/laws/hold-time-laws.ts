/** Contract cases for holds that need time: ends, waits, clock steps and expiry. */
import type { CompiledPolicy } from "../../core/compiled-policy.ts";
import type { Decision } from "../../core/decision.ts";
import type { Store } from "../../core/store.ts";
import { hold } from "../../holds/hold.ts";
import { bareLimiter } from "../bare-limiter.ts";
import { check, checkEqual, comparedFields } from "../check.ts";
import { policyOf } from "../subject.ts";
import { compareGroupsWithPure } from "./compare-groups.ts";
import { holdOf } from "./hold-laws.ts";
import { windowPhase } from "./law.ts";
import {
  applyOne,
  charge,
  holdCharge,
  remainingOf,
  type StoreBench,
  type StoreLaw,
  settleCharge,
  spannedPolicy,
} from "./store-law.ts";

const HOUR = 3_600_000;

/** An empty store at the start of a window, and a function that advances its time. */
async function atWindowStart({ createTimed, algorithm }: StoreBench, windowMs: number) {
  const { store, advance } = await createTimed();
  check(advance !== undefined, "this case needs time: return { store, advance } from create");
  const limiter = bareLimiter(policyOf(algorithm, 1, windowMs, "phase"), store);
  await advance(windowMs - ((await windowPhase({ limiter })) % windowMs));
  return { store, advance: async (ms: number) => advance(ms) };
}

/** Checks that a charge is denied 1 ms before its wait is over, and admitted then. Its key is not changed before. */
async function checkRetry(
  store: Store,
  advance: (ms: number) => Promise<void>,
  retry: () => Promise<Decision>,
  waitMs: number | null | undefined,
  subject: string,
): Promise<void> {
  check(typeof waitMs === "number" && waitMs >= 1, `${subject}: a wait of ${waitMs}`);
  await advance(waitMs - 1);
  check(!(await retry()).allowed, `${subject}: admitted 1 ms before its wait was over`);
  await advance(1);
  check((await retry()).allowed, `${subject}: denied when its wait was over`);
  await store.dispose();
}

export const holdTimeLaws: readonly StoreLaw[] = [
  {
    title: "H4: charges a hold that is never settled in full at its end, however late it is read",
    needs: "fake",
    async run(bench) {
      const { store, advance } = await atWindowStart(bench, 1000);
      const policy = spannedPolicy(bench, 10, 1000, "end");
      await applyOne(store, holdCharge(policy, "ended", 6, "h", 300));
      await applyOne(store, holdCharge(policy, "settled", 6, "h", HOUR));
      await advance(299);
      checkEqual(await remainingOf(store, policy, "ended"), 4, "left 1 ms before the end");
      await advance(1);
      await applyOne(store, settleCharge(policy, "settled", 6));
      for (const ms of [0, 1, 50, 399, 250, 400, 700]) {
        await advance(ms);
        const [ended, settled] = await Promise.all(
          ["ended", "settled"].map((key) => applyOne(store, charge(policy, key, 10, "peek"))),
        );
        checkEqual(comparedFields(ended as Decision), comparedFields(settled as Decision), `${ms} ms later`);
      }
      const late = await applyOne(store, settleCharge(policy, "ended", 1));
      checkEqual([late.allowed, late.retryAfterMs], [false, null], "a settlement after the end");
    },
  },
  {
    title: "H7: admits a take and a hold that were denied because of holds after retryAfterMs, and not 1 ms earlier",
    needs: "fake",
    async run(bench) {
      for (const mode of ["take", "hold"] as const) {
        const { store, advance } = await atWindowStart(bench, 1000);
        const policy = spannedPolicy(bench, 10, 1000, "wait");
        await applyOne(store, charge(policy, "k", 2));
        await applyOne(store, holdCharge(policy, "k", 3, "a", 250));
        await applyOne(store, holdCharge(policy, "k", 4, "b", 700));
        const retry = () => applyOne(store, mode === "take" ? charge(policy, "k", 9) : holdCharge(policy, "k", 9, "c"));
        const { retryAfterMs } = await retry();
        await checkRetry(store, advance, retry, retryAfterMs, `${mode} of 9 of 10`);
      }
    },
  },
  {
    title: "H7: admits a denied charge after earliestRetryMs, and not 1 ms earlier, if all holds are cancelled at once",
    needs: "fake",
    async run(bench) {
      const { store, advance } = await atWindowStart(bench, 1000);
      const policy = spannedPolicy(bench, 10, 1000, "early");
      await applyOne(store, charge(policy, "k", 8));
      await applyOne(store, holdCharge(policy, "k", 1, "a", 5000));
      await applyOne(store, holdCharge(policy, "k", 1, "b", 9000));
      const retry = () => applyOne(store, charge(policy, "k", 9));
      const denied = await retry();
      check(!denied.allowed && denied.retryAfterMs !== null, "a take of 9 was not denied for a time");
      const { earliestRetryMs = 0, retryAfterMs } = denied;
      check(earliestRetryMs < retryAfterMs, `earliestRetryMs ${earliestRetryMs}, retryAfterMs ${retryAfterMs}`);
      for (const id of ["a", "b"]) await applyOne(store, settleCharge(policy, "k", 0, id));
      await checkRetry(store, advance, retry, earliestRetryMs, "take of 9 of 10");
    },
  },
  {
    title: "H7: admits a denied renewal after retryAfterMs, and not 1 ms earlier",
    needs: "fake",
    async run(bench) {
      const { store, advance } = await atWindowStart(bench, 1000);
      const policy = spannedPolicy(bench, 10, 1000, "renewal");
      await applyOne(store, holdCharge(policy, "k", 3, "own", HOUR));
      await applyOne(store, holdCharge(policy, "k", 6, "other", 400));
      const renew = () => applyOne(store, holdCharge(policy, "k", 8, "own", HOUR));
      const { retryAfterMs } = await renew();
      await checkRetry(store, advance, renew, retryAfterMs, "a renewal for 8 of 10");
    },
  },
  {
    title: "H2: admits again once a debt is paid, within two fills or windows",
    needs: "fake",
    async run(bench) {
      const { store, advance } = await atWindowStart(bench, 1000);
      const policy = spannedPolicy(bench, 10, 1000, "paid");
      await applyOne(store, holdCharge(policy, "k", 5));
      await applyOne(store, settleCharge(policy, "k", 20));
      const retry = () => applyOne(store, charge(policy, "k", 1));
      const { retryAfterMs } = await retry();
      const mostMs = bench.algorithm === "sliding-window" ? 4000 : 2000;
      check((retryAfterMs ?? Number.POSITIVE_INFINITY) <= mostMs, `a debt of one limit blocks for ${retryAfterMs} ms`);
      await checkRetry(store, advance, retry, retryAfterMs, "a take after a debt");
    },
  },
  {
    title: "H10: neither ends nor prolongs a hold when the clock steps back",
    needs: "fake",
    async run(bench) {
      const { store, advance } = await atWindowStart(bench, 1000);
      const limiter = bareLimiter(policyOf(bench.algorithm, 10, 1000), store);
      await hold(limiter, "k", 6, { id: "h", forMs: 500 });
      await advance(-HOUR);
      checkEqual([(await limiter.peek("k")).held, (await limiter.peek("k")).remaining], [6, 4], "an hour back");
      // A write makes the earlier time the time of the bucket.
      await limiter.consume("k");
      await advance(499);
      checkEqual((await limiter.peek("k")).held, 6, "held 1 ms before its end");
      await advance(1);
      checkEqual((await limiter.peek("k")).held, undefined, "held at its end");
    },
  },
  {
    title: "H15: stores nothing once all holds have ended and resetAfterMs has passed",
    needs: "fake",
    async run(bench) {
      const { store, advance } = await atWindowStart(bench, 1000);
      const limiter = bareLimiter(policyOf(bench.algorithm, 10, 1000), store);
      const decision = await hold(limiter, "k", 6, { forMs: 1500 });
      holdOf(decision);
      check(decision.resetAfterMs > 1500, `resetAfterMs of ${decision.resetAfterMs} with a hold of 1500 ms`);
      await advance(decision.resetAfterMs - 1);
      checkEqual((await limiter.inspect("k")).found, true, "found 1 ms before resetAfterMs");
      await advance(1);
      const { found, remaining, raw } = await limiter.inspect("k");
      checkEqual([found, remaining, raw], [false, 10, null], "found after resetAfterMs");
    },
  },
  {
    title: "H16: makes the same decisions with holds as the pure function, under two plans",
    needs: "fake",
    async run(bench) {
      for (const [limit, spanMs] of [
        [10, 1000],
        [3, 7],
        [100, 60_000],
      ] as const) {
        const plans = [limit, 2 * limit].map((most) => spannedPolicy(bench, most, spanMs, "plan", { share: true })) as [
          CompiledPolicy,
          CompiledPolicy,
        ];
        await compareGroupsWithPure(bench, plans, spanMs, 150);
      }
    },
  },
];
