/** The laws of a limiter, each as a case that fails on a limiter which breaks it. */
import { decide } from "../algorithms/decide.ts";
import type { Mode } from "../core/charge.ts";
import type { Decision } from "../core/decision.ts";
import type { AlgorithmName, Policy } from "../core/policy.ts";
import type { RateLimiter } from "../core/rate-limiter.ts";
import { resolvePolicy } from "../core/terms.ts";
import { check, figures, refuses, same } from "./check.ts";
import { type Admission, findExcess, leastAdmitted } from "./oracles.ts";
import type { Random } from "./random.ts";
import { policyOf, type Subject, type Time } from "./subject.ts";

/** What a law is tried on. */
export interface Bench {
  readonly algorithm: AlgorithmName;
  readonly random: Random;
  readonly time: Time;
  /** A fresh limiter. */
  create(policy: Policy): Promise<Subject>;
}

/** One law, or a part of one. */
export interface Law {
  readonly title: string;
  /** What it needs: nothing, time that passes, time that can be moved by the millisecond, or a restart. */
  readonly needs?: "time" | "fake time" | "restart";
  /** The only algorithms that it speaks of. Default: all. */
  readonly only?: readonly AlgorithmName[];
  run(bench: Bench): Promise<void>;
}

const HOUR = 3_600_000;
const BUCKETS: readonly AlgorithmName[] = ["token-bucket", "leaky-bucket"];

/** Whatever is slower than this does not refill while a case runs on a real clock. */
function slow(bench: Bench, limit: number): Policy {
  return policyOf(bench.algorithm, limit, 24 * HOUR);
}

async function drain(limiter: RateLimiter, key: string, limit: number): Promise<void> {
  for (let i = 0; i < limit; i++) check((await limiter.consume(key)).allowed, `charge ${i + 1} of ${limit} was denied`);
}

async function pass(subject: Subject, ms: number): Promise<void> {
  check(subject.advance !== undefined, "this law needs time: return { limiter, advance } from create");
  await subject.advance(ms);
}

export const limiterLaws: readonly Law[] = [
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
    title: "law 3: waiting retryAfterMs is admitted, and a millisecond less is denied",
    needs: "fake time",
    async run(bench) {
      const { random } = bench;
      for (let i = 0; i < 40; i++) {
        const limit = random.pick([1, 2, 3, 10, 1000]);
        const subject = await bench.create(
          policyOf(bench.algorithm, limit, random.pick([limit, 700, 1000, 3333, HOUR])),
        );
        await pass(subject, random.whole(0, 1500));
        await subject.limiter.consume("user:1", random.whole(1, limit));
        await pass(subject, random.whole(0, 900));
        await subject.limiter.consume("user:1", random.whole(1, limit));
        const cost = random.whole(1, limit);
        const denied = await subject.limiter.consume("user:1", cost);
        if (denied.allowed) continue;
        const wait = denied.retryAfterMs;
        check(Number.isInteger(wait) && wait !== null && wait >= 1, `retryAfterMs is ${wait}, not a whole number >= 1`);
        await pass(subject, wait - 1);
        check(
          !(await subject.limiter.consume("user:1", cost)).allowed,
          `cost ${cost} of ${limit}: admitted 1 ms before retryAfterMs ${wait}`,
        );
        await pass(subject, 1);
        check(
          (await subject.limiter.consume("user:1", cost)).allowed,
          `cost ${cost} of ${limit}: denied after retryAfterMs ${wait}`,
        );
      }
    },
  },
  {
    title: "law 3: waiting retryAfterMs is admitted",
    needs: "time",
    async run(bench) {
      const subject = await bench.create(policyOf(bench.algorithm, 3, 300));
      let decision = await subject.limiter.consume("user:1");
      for (let i = 0; decision.allowed && i < 50; i++) decision = await subject.limiter.consume("user:1");
      check(!decision.allowed && decision.retryAfterMs !== null, "50 charges at once never emptied a limit of 3");
      await pass(subject, decision.retryAfterMs);
      check((await subject.limiter.consume("user:1")).allowed, `denied after waiting ${decision.retryAfterMs} ms`);
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
    title: "law 6: every figure equals the pure function's, over random steps",
    needs: "fake time",
    async run(bench) {
      const { random } = bench;
      for (const [limit, spanMs] of [
        [1, 1],
        [3, 1000],
        [10, 1000],
        [7, 3333],
        [5000, HOUR],
      ] as const)
        await walk(bench, limit, spanMs, 150);
      await walk(bench, random.whole(1, 10_000), random.whole(10, 10 * HOUR), 150);
    },
  },
  {
    title: "law 7: a clock that steps back mints nothing and locks nobody out for longer than a full refill",
    needs: "fake time",
    async run(bench) {
      for (const back of [1, 400, 1000, 2500, HOUR, 24 * HOUR, 400 * 24 * HOUR]) {
        const subject = await bench.create(policyOf(bench.algorithm, 10, 1000));
        await pass(subject, 3210);
        await drain(subject.limiter, "user:1", 10);
        await pass(subject, -back);
        const denied = await subject.limiter.consume("user:1");
        check(!denied.allowed, `${back} ms back: a charge was admitted on an empty bucket`);
        await pass(subject, bench.algorithm === "sliding-window" ? 2000 : 1000);
        const after = await subject.limiter.consume("user:1", 10);
        check(after.allowed, `${back} ms back: still denied a full refill later: ${JSON.stringify(after)}`);
        // And forth again: what lies in the past by then must not count against anybody.
        await pass(subject, back + 2000);
        check((await subject.limiter.consume("user:1", 10)).allowed, `${back} ms back and forth: denied`);
      }
    },
  },
  {
    title: "law 8: fractional rates are exact",
    needs: "fake time",
    only: BUCKETS,
    async run(bench) {
      const name = bench.algorithm === "token-bucket" ? "tokensPerSecond" : "leaksPerSecond";
      const of = (capacity: number, rate: number | string) =>
        ({ algorithm: bench.algorithm, capacity, [name]: rate }) as unknown as Policy;
      for (const [rate, ms] of [
        [0.1, 10_000],
        ["3/h", 1_200_000],
        [3, 334],
        [1 / 3, 3000],
        [1e-3, 1e6],
      ] as const) {
        const subject = await bench.create(of(1, rate));
        await drain(subject.limiter, "user:1", 1);
        same((await subject.limiter.consume("user:1")).retryAfterMs, ms, `retryAfterMs at ${rate} per second`);
        await pass(subject, ms);
        await drain(subject.limiter, "user:1", 1);
      }
      const thirds = await bench.create(of(3, 3));
      await drain(thirds.limiter, "user:1", 3);
      await pass(thirds, 1000);
      await drain(thirds.limiter, "user:1", 3);
    },
  },
  {
    title: "law 8: large numbers are exact",
    async run(bench) {
      const limit = bench.algorithm === "sliding-log" ? 10_000 : 2 ** 31 - 1;
      const { limiter } = await bench.create(policyOf(bench.algorithm, limit, 2 ** 20));
      same((await limiter.consume("user:1", limit - 1)).allowed, true, `a cost of ${limit - 1}`);
      const one = await limiter.peek("user:1", limit);
      check(!one.allowed && one.remaining >= 1 && Number.isSafeInteger(one.remaining), `remaining is ${one.remaining}`);
    },
  },
  {
    title: "law 9: a bad cost, key or policy is an error and changes nothing",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 10));
      await drain(limiter, "user:1", 4);
      const costs: unknown[] = [
        Number.NaN,
        Infinity,
        -Infinity,
        -1,
        0.5,
        "5",
        "1",
        null,
        1n,
        {},
        [],
        true,
        2 ** 31,
        2 ** 53,
      ];
      for (const cost of costs) {
        for (const call of ["consume", "peek", "refund"] as const) {
          await refuses(
            () => limiter[call]("user:1", cost as number),
            "invalid-cost",
            `${call} with cost ${String(cost)}`,
          );
        }
        if (limiter.consumeSync)
          await refuses(
            async () => limiter.consumeSync?.("user:1", cost as number),
            "invalid-cost",
            `consumeSync with cost ${String(cost)}`,
          );
      }
      for (const key of ["", undefined, null, 42, {}, ["user:1"]]) {
        for (const call of ["consume", "peek", "reset", "inspect"] as const) {
          await refuses(() => limiter[call](key as string), "invalid-key", `${call} with key ${String(key)}`);
        }
        await refuses(() => limiter.refund(key as string, 1), "invalid-key", `refund with key ${String(key)}`);
      }
      same((await limiter.peek("user:1")).remaining, 6, "left after bad calls");
      const good = slow(bench, 10) as unknown as Record<string, unknown>;
      for (const option of Object.keys(good).filter((option) => option !== "algorithm")) {
        for (const value of [
          Number.NaN,
          Infinity,
          -1,
          0,
          "5",
          null,
          undefined,
          option.endsWith("PerSecond") ? {} : 0.5,
        ]) {
          const bad = { ...good, [option]: value } as unknown as Policy;
          await refuses(() => bench.create(bad), "invalid-option", `${option}: ${String(value)}`);
        }
      }
      await refuses(() => bench.create({ ...good, burst: 5 } as unknown as Policy), "unknown-option", "burst");
    },
  },
  {
    title: "law 9: cost 0 is free, and the default cost is 1",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 2));
      same((await limiter.consume("user:1", 0)).remaining, 2, "left after cost 0");
      same((await limiter.inspect("user:1")).found, false, "cost 0 stored something");
      await drain(limiter, "user:1", 2);
      const free = await limiter.consume("user:1", 0);
      same([free.allowed, free.remaining], [true, 0], "cost 0 on an empty bucket");
      same((await limiter.consume("user:1", undefined)).allowed, false, "an undefined cost on an empty bucket");
    },
  },
  {
    title: "law 10: what is stored expires at the time to full, never sooner",
    needs: "fake time",
    async run(bench) {
      const subject = await bench.create(policyOf(bench.algorithm, 10, 1000));
      await pass(subject, 130);
      await subject.limiter.consume("user:1", 4);
      const kept = await subject.limiter.inspect("user:1");
      check(
        kept.found && kept.ttlMs !== null && Number.isSafeInteger(kept.ttlMs),
        `a bucket in use lives ${kept.ttlMs} ms`,
      );
      check(
        kept.ttlMs >= kept.resetAfterMs,
        `it lives ${kept.ttlMs} ms and is full only after ${kept.resetAfterMs} ms`,
      );
      await pass(subject, kept.resetAfterMs - 1);
      check((await subject.limiter.peek("user:1")).resetAfterMs === 1, "a millisecond before the reset it is not full");
      await pass(subject, 1);
      same((await subject.limiter.peek("user:1")).remaining, 10, "left at the reset");
      await pass(subject, Math.max(0, kept.ttlMs - kept.resetAfterMs));
      same((await subject.limiter.inspect("user:1")).found, false, "kept for ever: found after its time to live");
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
  {
    title: "leaky bucket: what is admitted waits its turn",
    only: ["leaky-bucket"],
    needs: "fake time",
    async run(bench) {
      const { limiter } = await bench.create({ algorithm: "leaky-bucket", capacity: 3, leaksPerSecond: 10 });
      const delays: (number | undefined)[] = [];
      for (let i = 0; i < 3; i++) delays.push((await limiter.consume("user:1")).delayMs);
      same(delays, [0, 100, 200], "the delays of three at once");
      const denied = await limiter.consume("user:1");
      same([denied.allowed, denied.retryAfterMs, "delayMs" in denied], [false, 100, false], "the fourth");
    },
  },
  {
    title: "the policy is told in one frozen shape",
    async run(bench) {
      const policy = policyOf(bench.algorithm, 10, 2000, "named");
      const { limiter } = await bench.create(policy);
      const told = limiter.getPolicy();
      const { algorithm, name, capacity, limit, windowMs, tokensPerSecond } = told;
      same(
        { algorithm, name, capacity, limit, windowMs, tokensPerSecond },
        { algorithm: bench.algorithm, name: "named", capacity: 10, limit: 10, windowMs: 2000, tokensPerSecond: 5 },
        "getPolicy()",
      );
      check(Object.isFrozen(told), "getPolicy() can be changed");
      same((await limiter.consume("user:1")).policy, "named", "the decision's policy");
    },
  },
  {
    title: "dispose ends the limiter, and may be called twice",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 10));
      await limiter.consume("user:1");
      await limiter.dispose();
      await limiter.dispose();
      for (const call of ["consume", "peek", "reset", "inspect"] as const) {
        await refuses(() => limiter[call]("user:1"), "disposed", `${call} after dispose`);
      }
      await refuses(() => limiter.refund("user:1", 1), "disposed", "refund after dispose");
      if (limiter.consumeSync)
        await refuses(async () => limiter.consumeSync?.("user:1"), "disposed", "consumeSync after dispose");
    },
  },
];

/**
 * Where in its window the subject's clock stands, as a small instant that is equal to it in every
 * window up to an hour. Told by a charge to a key that nobody else uses.
 */
async function phase({ limiter }: Subject): Promise<number> {
  const { algorithm, windowMs } = limiter.getPolicy();
  const { resetAfterMs } = await limiter.consume("the phase of the clock");
  const left =
    algorithm === "fixed-window" ? resetAfterMs : algorithm === "sliding-window" ? resetAfterMs - windowMs : windowMs;
  return 10_000 * windowMs - left;
}

/** Charges a limiter and the pure function alike and compares every figure. */
async function walk(bench: Bench, limit: number, spanMs: number, steps: number): Promise<void> {
  const { random } = bench;
  const policy = policyOf(bench.algorithm, bench.algorithm === "sliding-log" ? Math.min(limit, 10_000) : limit, spanMs);
  const terms = resolvePolicy(policy);
  const subject = await bench.create(policy);
  const { limiter } = subject;
  let now = await phase(subject);
  let state: readonly number[] | undefined;
  let idle = true;
  const gaps = [0, 0, 1, 50, 70, 99, spanMs, Math.ceil(spanMs / terms.limit)];
  for (let i = 0; i < steps; i++) {
    const gap = random.pick([...gaps, random.whole(0, 2 * spanMs), -random.whole(0, Math.min(now, 3 * spanMs))]);
    if (gap < 0 && idle) {
      // A store may have forgotten a full bucket or not; a clock that steps back must not find out.
      await limiter.reset("user:1");
      state = undefined;
    }
    await pass(subject, gap);
    now += gap;
    const cost = random.pick([0, 1, 1, 1, 2, random.whole(1, terms.limit), terms.limit, terms.limit + 1]);
    const mode = random.pick<Mode | "reset">(["take", "take", "take", "take", "peek", "refund", "reset"]);
    const step = `step ${i}: ${mode} ${cost} at ${now} under ${terms.name}`;
    if (mode === "reset") {
      await limiter.reset("user:1");
      state = undefined;
      continue;
    }
    const outcome = decide(state, { terms, key: "user:1", cost, mode }, now);
    if (outcome.changed) state = outcome.state;
    idle = outcome.decision.resetAfterMs === 0;
    if (mode === "refund") {
      await limiter.refund("user:1", cost);
      continue;
    }
    const decision: Decision = await (mode === "take" ? limiter.consume("user:1", cost) : limiter.peek("user:1", cost));
    same(figures(decision), figures(outcome.decision), step);
  }
}
