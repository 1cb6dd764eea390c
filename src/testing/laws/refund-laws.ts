/** Contract cases for peek and refund. */
import type { Decision } from "../../core/decision.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import { policyOf } from "../subject.ts";
import { advance, drain, type Law, slow } from "./law.ts";

export const refundLaws: readonly Law[] = [
  {
    title: "peeks at the decision that consume would make, and takes nothing",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 5));
      checkEqual((await limiter.inspect("user:1")).found, false, "found before the first charge");
      for (let i = 0; i < 10; i++) checkEqual((await limiter.peek("user:1", 5)).remaining, 5, "left after a peek");
      checkEqual((await limiter.inspect("user:1")).found, false, "state found after a peek");
      await drain(limiter, "user:1", 3);
      checkEqual((await limiter.peek("user:1", 2)).allowed, true, "peek with a cost that fits");
      const denied = await limiter.peek("user:1", 3);
      check(
        !denied.allowed && denied.retryAfterMs !== null && denied.retryAfterMs >= 1,
        "peek with a cost that does not fit",
      );
      checkEqual((await limiter.consume("user:1", 2)).remaining, 0, "left after peeks and charges");
    },
  },
  {
    title: "refunds at most what is in use, and nothing to an unused key",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 10));
      await limiter.refund("user:1", 5);
      checkEqual((await limiter.inspect("user:1")).found, false, "state found after a refund to an unused key");
      await drain(limiter, "user:1", 6);
      await limiter.refund("user:1", 2);
      checkEqual((await limiter.peek("user:1")).remaining, 6, "left after 6 and a refund of 2");
      await limiter.refund("user:1", 0);
      await limiter.refund("user:1", 2 ** 31 - 1);
      checkEqual((await limiter.peek("user:1")).remaining, 10, "left after a refund of more than was taken");
      await drain(limiter, "user:1", 10);
      checkEqual((await limiter.consume("user:1")).allowed, false, "the 11th after a large refund");
    },
  },
  {
    title: "refunds nothing once the grant of the decision has expired",
    needs: "fake time",
    async run(bench) {
      const subject = await bench.create(policyOf(bench.algorithm, 2, 1000));
      const { limiter } = subject;
      const grants = [await limiter.consume("user:1"), await limiter.consume("user:1")];
      check(
        grants.every(({ allowed }) => allowed),
        "two charges that fit",
      );
      await advance(subject, grants[1]?.resetAfterMs ?? 0);
      await drain(limiter, "user:1", 2);
      for (const decision of grants) await limiter.refund("user:1", 1, decision);
      checkEqual(
        (await limiter.consume("user:1")).allowed,
        false,
        "admitted after two late refunds, with 2 of 2 in use",
      );
    },
  },
  {
    title: "refunds the grant of a decision, and at most the part still in use",
    needs: "fake time",
    async run(bench) {
      const { random } = bench;
      for (let i = 0; i < 20; i++) {
        const limit = random.whole(2, 20);
        const subject = await bench.create(policyOf(bench.algorithm, limit, random.pick([limit, 100, 999, 1000])));
        const { limiter } = subject;
        const before = random.whole(0, limit - 1);
        await drain(limiter, "user:1", before);
        await advance(subject, random.whole(0, 300));
        const left = (await limiter.peek("user:1")).remaining;
        const cost = random.whole(1, left);
        const decision = await limiter.consume("user:1", cost);
        await limiter.refund("user:1", cost, decision);
        checkEqual(
          (await limiter.peek("user:1")).remaining,
          left,
          `left of ${limit} after a charge of ${cost} and its refund`,
        );
        const again = await limiter.consume("user:1", cost);
        await advance(subject, random.whole(0, again.resetAfterMs));
        const after = (await limiter.peek("user:1")).remaining;
        await limiter.refund("user:1", cost, again);
        const restored = (await limiter.peek("user:1")).remaining - after;
        check(restored <= cost, `the refund of a charge of ${cost} restored ${restored}`);
      }
    },
  },
  {
    title: "refunds nothing for a denial and rejects a copy of a decision",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 2));
      const granted = await limiter.consume("user:1", 2);
      await limiter.refund("user:1", 2, await limiter.consume("user:1", 2));
      await limiter.refund("user:1", 2, await limiter.consume("user:1", 0));
      checkEqual((await limiter.peek("user:1")).remaining, 0, "left after refunds of charges that took nothing");
      await checkRejects(() => limiter.refund("user:1", 2, { ...granted }), "invalid-option", "a copy of a decision");
      await checkRejects(
        () => limiter.refund("user:1", 2, true as never),
        "invalid-option",
        "a boolean instead of a decision",
      );
      await limiter.refund("user:1", 1, granted);
      checkEqual((await limiter.peek("user:1")).remaining, 1, "left after the refund of one half");
    },
  },
  {
    title: "refunds a decision once and at most its cost",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 10));
      const one = await limiter.consume("user:1");
      await limiter.consume("user:1", 9);
      await limiter.refund("user:1", 10, one);
      checkEqual((await limiter.peek("user:1")).remaining, 1, "left after a refund of 10 for a charge of 1");
      for (let i = 0; i < 5; i++) await limiter.refund("user:1", 1, one);
      checkEqual((await limiter.peek("user:1")).remaining, 1, "left after five more refunds of one charge");
    },
  },
  {
    title: "keeps every window of a sliding log within the limit when grants are refunded late",
    only: ["sliding-log"],
    needs: "fake time",
    async run(bench) {
      // Logins that are held open and succeed late must not free budget for wrong passwords.
      const { random } = bench;
      const subject = await bench.create({ algorithm: "sliding-log", limit: 20, windowMs: 1000 });
      const open: { decision: Decision; at: number }[] = [];
      let kept: number[] = [];
      for (let now = 0; now < 20_000; ) {
        const gap = random.whole(0, 60);
        now += gap;
        await advance(subject, gap);
        if (random.whole(1, 3) === 1 && open.length > 0) {
          const [{ decision, at }] = open.splice(random.whole(0, open.length - 1), 1) as [(typeof open)[number]];
          await subject.limiter.refund("user:1", 1, decision);
          kept = kept.filter((time) => time !== at).concat(kept.filter((time) => time === at).slice(1));
        }
        const decision = await subject.limiter.consume("user:1");
        if (!decision.allowed) continue;
        kept.push(now);
        if (random.whole(1, 2) === 1) open.push({ decision, at: now });
        const inWindow = kept.filter((time) => time > now - 1000).length;
        check(inWindow <= 20, `${inWindow} charges of one second were not refunded; the limit is 20`);
      }
    },
  },
];
