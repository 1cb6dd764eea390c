/** What a limiter takes, refuses and tells. */
import type { Policy } from "../../core/policy.ts";
import { check, refuses, same } from "../check.ts";
import { maxLimitOf, policyOf } from "../subject.ts";
import { drain, type Law, slow } from "./law.ts";

export const inputLaws: readonly Law[] = [
  {
    title: "law 8: large numbers are exact",
    async run(bench) {
      const limit = maxLimitOf(bench.algorithm);
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
