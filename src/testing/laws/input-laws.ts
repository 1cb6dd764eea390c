/** Contract cases for arguments, the resolved policy and dispose. */
import type { Policy } from "../../core/policy.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import { maxLimitOf, policyOf } from "../subject.ts";
import { drain, type Law, slow } from "./law.ts";

export const inputLaws: readonly Law[] = [
  {
    title: "is exact with the largest limit",
    async run(bench) {
      const limit = maxLimitOf(bench.algorithm);
      const { limiter } = await bench.create(policyOf(bench.algorithm, limit, 2 ** 20));
      checkEqual((await limiter.consume("user:1", limit - 1)).allowed, true, `a cost of ${limit - 1}`);
      const one = await limiter.peek("user:1", limit);
      check(!one.allowed && one.remaining >= 1 && Number.isSafeInteger(one.remaining), `remaining is ${one.remaining}`);
    },
  },
  {
    title: "rejects an invalid cost, key or policy and changes nothing",
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
          await checkRejects(
            () => limiter[call]("user:1", cost as number),
            "invalid-cost",
            `${call} with cost ${String(cost)}`,
          );
        }
        if (limiter.consumeSync)
          await checkRejects(
            async () => limiter.consumeSync?.("user:1", cost as number),
            "invalid-cost",
            `consumeSync with cost ${String(cost)}`,
          );
      }
      for (const key of ["", undefined, null, 42, {}, ["user:1"]]) {
        for (const call of ["consume", "peek", "reset", "inspect"] as const) {
          await checkRejects(() => limiter[call](key as string), "invalid-key", `${call} with key ${String(key)}`);
        }
        await checkRejects(() => limiter.refund(key as string, 1), "invalid-key", `refund with key ${String(key)}`);
      }
      checkEqual((await limiter.peek("user:1")).remaining, 6, "left after invalid calls");
      const valid = slow(bench, 10) as unknown as Record<string, unknown>;
      for (const option of Object.keys(valid).filter((option) => option !== "algorithm")) {
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
          const invalid = { ...valid, [option]: value } as unknown as Policy;
          await checkRejects(() => bench.create(invalid), "invalid-option", `${option}: ${String(value)}`);
        }
      }
      await checkRejects(() => bench.create({ ...valid, burst: 5 } as unknown as Policy), "unknown-option", "burst");
    },
  },
  {
    title: "allows cost 0, takes nothing for it, and defaults to cost 1",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 2));
      checkEqual((await limiter.consume("user:1", 0)).remaining, 2, "left after cost 0");
      checkEqual((await limiter.inspect("user:1")).found, false, "state found after cost 0");
      await drain(limiter, "user:1", 2);
      const free = await limiter.consume("user:1", 0);
      checkEqual([free.allowed, free.remaining], [true, 0], "cost 0 on an empty bucket");
      checkEqual((await limiter.consume("user:1", undefined)).allowed, false, "an undefined cost on an empty bucket");
    },
  },
  {
    title: "returns the resolved policy as a frozen object",
    async run(bench) {
      const policy = policyOf(bench.algorithm, 10, 2000, "named");
      const { limiter } = await bench.create(policy);
      const resolved = limiter.getPolicy();
      const { algorithm, name, capacity, limit, windowMs, tokensPerSecond } = resolved;
      checkEqual(
        { algorithm, name, capacity, limit, windowMs, tokensPerSecond },
        { algorithm: bench.algorithm, name: "named", capacity: 10, limit: 10, windowMs: 2000, tokensPerSecond: 5 },
        "getPolicy()",
      );
      check(Object.isFrozen(resolved), "the result of getPolicy() is not frozen");
      checkEqual((await limiter.consume("user:1")).policy, "named", "the decision's policy");
    },
  },
  {
    title: "rejects calls after dispose, which may be called twice",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 10));
      await limiter.consume("user:1");
      await limiter.dispose();
      await limiter.dispose();
      for (const call of ["consume", "peek", "reset", "inspect"] as const) {
        await checkRejects(() => limiter[call]("user:1"), "disposed", `${call} after dispose`);
      }
      await checkRejects(() => limiter.refund("user:1", 1), "disposed", "refund after dispose");
      if (limiter.consumeSync)
        await checkRejects(async () => limiter.consumeSync?.("user:1"), "disposed", "consumeSync after dispose");
    },
  },
];
