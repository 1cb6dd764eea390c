/** What is taken, what is left and what is given back. */
import type { Decision } from "../../core/decision.ts";
import { check, refuses, same } from "../check.ts";
import { type Admission, findExcess, leastAdmitted } from "../oracles.ts";
import { policyOf } from "../subject.ts";
import { BUCKETS, drain, type Law, pass, phase, slow } from "./law.ts";

export const spendingLaws: readonly Law[] = [
  {
    title: "consume takes the cost and reports what is left",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 10));
      const first = await limiter.consume("user:1");
      same(
        [first.allowed, first.limit, first.remaining, "retryAfterMs" in first],
        [true, 10, 9, false],
        "the first charge",
      );
      const second = await limiter.consume("user:1", 3);
      same([second.allowed, second.remaining], [true, 6], "a cost of 3");
      check(second.resetAfterMs > 0 && second.nextAfterMs > 0, "a bucket in use has a reset and a next");
      check(second.nextAfterMs <= second.resetAfterMs, "the next unit comes no later than the reset");
      if (limiter.consumeSync) same(limiter.consumeSync("user:1", 2).remaining, 4, "left after consumeSync");
    },
  },
  {
    title: "law 1: concurrent charges never spend the same token twice",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 10));
      const decisions = await Promise.all(Array.from({ length: 25 }, () => limiter.consume("user:1")));
      same(decisions.filter(({ allowed }) => allowed).length, 10, "admitted of 25 at once");
      const weighted = await Promise.all(Array.from({ length: 25 }, () => limiter.consume("user:2", 3)));
      same(weighted.filter(({ allowed }) => allowed).length, 3, "admitted of 25 at once, each of cost 3");
      same((await limiter.peek("user:2")).remaining, 1, "left after three of cost 3");
    },
  },
  {
    title: "law 1: no interval admits more than the bound",
    needs: "fake time",
    async run(bench) {
      const { random } = bench;
      const subject = await bench.create(policyOf(bench.algorithm, 7, 1000));
      const { limiter } = subject;
      const log: Admission[] = [];
      let now = await phase(subject);
      for (let i = 0; i < 600; i++) {
        const step = random.pick([0, 0, 1, random.whole(2, 60), random.whole(100, 1500)]);
        await pass(subject, step);
        now += step;
        const cost = random.whole(1, 3);
        if ((await limiter.consume("user:1", cost)).allowed) log.push({ atMs: now, cost });
      }
      const excess = findExcess(log, limiter.getPolicy());
      check(excess === undefined, `more than the bound was admitted: ${JSON.stringify(excess)}`);
    },
  },
  {
    title: "law 2: a saturated bucket loses no fraction of a token",
    needs: "fake time",
    only: BUCKETS,
    async run(bench) {
      for (const gap of [50, 70, 99]) {
        const subject = await bench.create(policyOf(bench.algorithm, 2, 200));
        let [admitted, elapsed] = [0, 0];
        for (; elapsed < 60_000; elapsed += gap) {
          if ((await subject.limiter.consume("user:1")).allowed) admitted++;
          await pass(subject, gap);
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
    title: "law 2: a saturated window gives its limit every window",
    needs: "fake time",
    only: ["fixed-window", "sliding-log"],
    async run(bench) {
      const subject = await bench.create(policyOf(bench.algorithm, 5, 1000));
      await pass(subject, 1000 - ((await phase(subject)) % 1000));
      for (let window = 0; window < 20; window++) {
        let admitted = 0;
        for (let i = 0; i < 10; i++) if ((await subject.limiter.consume("user:1")).allowed) admitted++;
        same(admitted, 5, `admitted in window ${window}`);
        await pass(subject, 1000);
      }
    },
  },
  {
    title: "law 4: a denial takes nothing and changes nothing that is stored",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 10));
      await drain(limiter, "user:1", 8);
      const before = await limiter.inspect("user:1");
      for (let i = 0; i < 20; i++) {
        const decision = await limiter.consume("user:1", 5);
        same([decision.allowed, decision.remaining], [false, 2], "a cost of 5 with 2 left");
      }
      const after = await limiter.inspect("user:1");
      same([after.raw, after.remaining], [before.raw, 2], "stored after 20 denials");
      check((await limiter.consume("user:1", 2)).allowed, "the 2 that were left are gone");
    },
  },
  {
    title: "law 5: a cost above the limit never fits, says null and takes nothing",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 10));
      const decision = await limiter.consume("user:1", 11);
      same([decision.allowed, decision.remaining, decision.retryAfterMs], [false, 10, null], "cost 11 of 10");
      same((await limiter.inspect("user:1")).found, false, "something is stored for it");
      await drain(limiter, "user:1", 4);
      same((await limiter.consume("user:1", 2 ** 31 - 1)).remaining, 6, "remaining, when the largest cost is refused");
      await drain(limiter, "user:1", 6);
    },
  },
  {
    title: "law 10: a spray of new keys does not free a denied one",
    async run(bench) {
      const subject = await bench.create(slow(bench, 10));
      const { limiter, maxKeys = 0 } = subject;
      for (let i = 0; i < 20; i++) await limiter.consume(`denied:${i}`, 10);
      for (let i = 0; i < maxKeys * 15; i++) await limiter.consume(`spray:${i}`);
      let freed = 0;
      for (let i = 0; i < 20; i++) if ((await limiter.consume(`denied:${i}`)).allowed) freed++;
      same(freed, 0, `denied keys that were freed by ${maxKeys * 15} new ones`);
    },
  },
  {
    title: "law 11: keys never collide",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 1));
      const long = "k".repeat(1000);
      const keys = [
        "a",
        "a:b",
        "a:b:c",
        "a%3Ab",
        "{a}b",
        "{a}",
        "a\u0000",
        "A",
        " a",
        "a ",
        "é",
        "e\u0301",
        "__proto__",
        "constructor",
        "toString",
        "0",
        "00",
        "\ud800",
        long,
        `${long}x`,
        `${long}y`,
        "k".repeat(2 ** 20),
      ];
      for (const key of keys)
        check(
          (await limiter.consume(key)).allowed,
          `another key spent the budget of ${JSON.stringify(key.slice(0, 20))}`,
        );
      for (const key of keys)
        check(!(await limiter.consume(key)).allowed, `${JSON.stringify(key.slice(0, 20))} was forgotten`);
    },
  },
  {
    title: "law 12: a restart frees at most one limit",
    needs: "restart",
    async run(bench) {
      const subject = await bench.create(slow(bench, 10));
      check(subject.restart !== undefined, "this law needs restart() beside the limiter");
      await drain(subject.limiter, "user:1", 10);
      const again = await subject.restart();
      let admitted = 0;
      for (let i = 0; i < 30; i++) if ((await again.consume("user:1")).allowed) admitted++;
      check(admitted <= 10, `${admitted} admitted after one restart; the limit is 10`);
    },
  },
  {
    title: "peek answers what consume would, and takes nothing",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 5));
      same((await limiter.inspect("user:1")).found, false, "found before the first charge");
      for (let i = 0; i < 10; i++) same((await limiter.peek("user:1", 5)).remaining, 5, "left after a look");
      same((await limiter.inspect("user:1")).found, false, "a look stored something");
      await drain(limiter, "user:1", 3);
      same((await limiter.peek("user:1", 2)).allowed, true, "a look at a cost that fits");
      const denied = await limiter.peek("user:1", 3);
      check(
        !denied.allowed && denied.retryAfterMs !== null && denied.retryAfterMs >= 1,
        "a look at a cost that does not fit",
      );
      same((await limiter.consume("user:1", 2)).remaining, 0, "left after looks and charges");
    },
  },
  {
    title: "refund gives back, never above full, and nothing to a key that has spent nothing",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 10));
      await limiter.refund("user:1", 5);
      same((await limiter.inspect("user:1")).found, false, "a refund to an unknown key stored something");
      await drain(limiter, "user:1", 6);
      await limiter.refund("user:1", 2);
      same((await limiter.peek("user:1")).remaining, 6, "left after 6 and a refund of 2");
      await limiter.refund("user:1", 0);
      await limiter.refund("user:1", 2 ** 31 - 1);
      same((await limiter.peek("user:1")).remaining, 10, "left after a refund of more than was taken");
      await drain(limiter, "user:1", 10);
      same((await limiter.consume("user:1")).allowed, false, "the 11th after a large refund");
    },
  },
  {
    title: "a refund with its decision gives nothing back once that grant has expired",
    needs: "fake time",
    async run(bench) {
      const subject = await bench.create(policyOf(bench.algorithm, 2, 1000));
      const { limiter } = subject;
      const slow = [await limiter.consume("user:1"), await limiter.consume("user:1")];
      check(
        slow.every(({ allowed }) => allowed),
        "two charges that fit",
      );
      await pass(subject, slow[1]?.resetAfterMs ?? 0);
      await drain(limiter, "user:1", 2);
      for (const decision of slow) await limiter.refund("user:1", 1, decision);
      same((await limiter.consume("user:1")).allowed, false, "admitted after two late refunds, with 2 of 2 in use");
    },
  },
  {
    title: "a refund with its decision gives back its own grant, and no more than is in use of it",
    needs: "fake time",
    async run(bench) {
      const { random } = bench;
      for (let i = 0; i < 20; i++) {
        const limit = random.whole(2, 20);
        const subject = await bench.create(policyOf(bench.algorithm, limit, random.pick([limit, 100, 999, 1000])));
        const { limiter } = subject;
        const before = random.whole(0, limit - 1);
        await drain(limiter, "user:1", before);
        await pass(subject, random.whole(0, 300));
        const left = (await limiter.peek("user:1")).remaining;
        const cost = random.whole(1, left);
        const decision = await limiter.consume("user:1", cost);
        await limiter.refund("user:1", cost, decision);
        same(
          (await limiter.peek("user:1")).remaining,
          left,
          `left of ${limit} after a charge of ${cost} and its refund`,
        );
        const again = await limiter.consume("user:1", cost);
        await pass(subject, random.whole(0, again.resetAfterMs));
        const after = (await limiter.peek("user:1")).remaining;
        await limiter.refund("user:1", cost, again);
        const given = (await limiter.peek("user:1")).remaining - after;
        check(given <= cost, `a refund of a charge of ${cost} gave ${given} back`);
      }
    },
  },
  {
    title: "a refund of a denial gives nothing back, and a copy of a decision is refused",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 2));
      const granted = await limiter.consume("user:1", 2);
      await limiter.refund("user:1", 2, await limiter.consume("user:1", 2));
      await limiter.refund("user:1", 2, await limiter.consume("user:1", 0));
      same((await limiter.peek("user:1")).remaining, 0, "left after refunds of what took nothing");
      await refuses(() => limiter.refund("user:1", 2, { ...granted }), "invalid-option", "a copy of a decision");
      await refuses(() => limiter.refund("user:1", 2, true as never), "invalid-option", "a boolean for a decision");
      await limiter.refund("user:1", 1, granted);
      same((await limiter.peek("user:1")).remaining, 1, "left after the refund of a half");
    },
  },
  {
    title: "a decision is refunded once, and for no more than it took",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 10));
      const one = await limiter.consume("user:1");
      await limiter.consume("user:1", 9);
      await limiter.refund("user:1", 10, one);
      same((await limiter.peek("user:1")).remaining, 1, "left after a refund of 10 for a charge of 1");
      for (let i = 0; i < 5; i++) await limiter.refund("user:1", 1, one);
      same((await limiter.peek("user:1")).remaining, 1, "left after five more refunds of one charge");
    },
  },
  {
    title: "sliding log: with refunds of their own grants, no window holds more than the limit",
    only: ["sliding-log"],
    needs: "fake time",
    async run(bench) {
      // Logins that are held open and succeed late must not make room for wrong ones.
      const { random } = bench;
      const subject = await bench.create({ algorithm: "sliding-log", limit: 20, windowMs: 1000 });
      const open: { decision: Decision; at: number }[] = [];
      let kept: number[] = [];
      for (let now = 0; now < 20_000; ) {
        const gap = random.whole(0, 60);
        now += gap;
        await pass(subject, gap);
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
  {
    title: "reset forgets one key and no other",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 2));
      await drain(limiter, "user:1", 2);
      await drain(limiter, "user:2", 2);
      await limiter.reset("user:1");
      await limiter.reset("never seen");
      same((await limiter.inspect("user:1")).found, false, "found after reset");
      await drain(limiter, "user:1", 2);
      same((await limiter.consume("user:2")).allowed, false, "the other key");
    },
  },
];
