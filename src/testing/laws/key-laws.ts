/** Contract cases for keys: eviction, collisions, restart and reset. */
import { check, checkEqual } from "../check.ts";
import { drain, type Law, slow } from "./law.ts";

export const keyLaws: readonly Law[] = [
  {
    title: "keeps denied keys denied while new keys flood the store",
    async run(bench) {
      const subject = await bench.create(slow(bench, 10));
      const { limiter, maxKeys = 0 } = subject;
      for (let i = 0; i < 20; i++) await limiter.consume(`denied:${i}`, 10);
      for (let i = 0; i < maxKeys * 15; i++) await limiter.consume(`new:${i}`);
      let freed = 0;
      for (let i = 0; i < 20; i++) if ((await limiter.consume(`denied:${i}`)).allowed) freed++;
      checkEqual(freed, 0, `denied keys admitted after ${maxKeys * 15} new keys`);
    },
  },
  {
    title: "keeps similar keys apart",
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
        check(!(await limiter.consume(key)).allowed, `${JSON.stringify(key.slice(0, 20))} was admitted twice`);
    },
  },
  {
    title: "admits at most one more limit after a restart",
    needs: "restart",
    async run(bench) {
      const subject = await bench.create(slow(bench, 10));
      check(subject.restart !== undefined, "this case needs restart: return { limiter, restart } from create");
      await drain(subject.limiter, "user:1", 10);
      const again = await subject.restart();
      let admitted = 0;
      for (let i = 0; i < 30; i++) if ((await again.consume("user:1")).allowed) admitted++;
      check(admitted <= 10, `${admitted} admitted after one restart; the limit is 10`);
    },
  },
  {
    title: "resets one key and no other",
    async run(bench) {
      const { limiter } = await bench.create(slow(bench, 2));
      await drain(limiter, "user:1", 2);
      await drain(limiter, "user:2", 2);
      await limiter.reset("user:1");
      await limiter.reset("never seen");
      checkEqual((await limiter.inspect("user:1")).found, false, "found after reset");
      await drain(limiter, "user:1", 2);
      checkEqual((await limiter.consume("user:2")).allowed, false, "the other key");
    },
  },
];
