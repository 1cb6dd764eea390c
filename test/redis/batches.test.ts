/** Batching of calls, and the errors of single calls in a batch. */
import { combine, consumeAll, createLimiter, type Policy, slidingLog, tokenBucket } from "sluice";
import { redisRateLimiter, redisStore } from "sluice/redis";
import { describe, expect, it } from "vitest";
import { randomFrom } from "../../src/testing/random.ts";
import { ALGORITHMS, policyOf } from "../../src/testing/subject.ts";
import { withRedis } from "../servers/needs.ts";
import { redis } from "./own-redis.ts";
import { spiedClient, storeOnly, withEmptyDatabase } from "./spied-client.ts";

withEmptyDatabase();

describe("limiters on one client", withRedis, () => {
  it("use separate stored keys per policy", async () => {
    const client = spiedClient();
    const a = redisRateLimiter(client, tokenBucket("1/h", { burst: 3, name: "a" }));
    const b = redisRateLimiter(client, slidingLog("3/h", { name: "b" }));
    for (const key of ["k", "{k}", "k}", "a:b", " ", "🦦", "x".repeat(300)]) {
      await Promise.all([a.consume(key, 3), b.consume(key, 2)]);
      expect((await a.peek(key)).remaining, key).toBe(0);
      expect((await b.peek(key)).remaining, key).toBe(1);
    }
    expect(await redis.dbsize()).toBe(14);
  });

  it("share one call across algorithms, and combine() is one call", async () => {
    const client = spiedClient();
    const store = redisStore(client);
    const limiters = ALGORITHMS.map((algorithm) =>
      createLimiter({ policy: policyOf(algorithm, 5, 60_000, algorithm), store, ...storeOnly }),
    );
    await Promise.all(limiters.flatMap((limiter) => ["a", "b", "c"].map((key) => limiter.consume(key))));
    expect(client.calls).toHaveLength(1);
    expect(client.calls[0]?.keys).toHaveLength(15);
    client.calls.length = 0;
    const all = combine(limiters);
    expect((await all.consume("a", 4)).parts?.map(({ remaining }) => remaining)).toEqual([0, 0, 0, 0, 0]);
    expect((await all.consume("a")).allowed).toBe(false);
    expect(client.calls).toHaveLength(2);
  });

  it("share a store if redisRateLimiter made them, so consumeAll() over two keys is one atomic call", async () => {
    const client = spiedClient();
    const user = redisRateLimiter(client, tokenBucket("1/h", { burst: 3, name: "user" }), { localDenialMs: 0 });
    const address = redisRateLimiter(client, tokenBucket("1/h", { burst: 2, name: "address" }), { localDenialMs: 0 });
    const consumeBoth = () =>
      consumeAll([
        { limiter: user, key: "u" },
        { limiter: address, key: "10.0.0.1" },
      ]);
    expect([await consumeBoth(), await consumeBoth(), await consumeBoth()].map(({ allowed }) => allowed)).toEqual([
      true,
      true,
      false,
    ]);
    expect(client.calls).toHaveLength(3);
    expect((await user.peek("u")).remaining).toBe(1);
  });
});

describe("batches", withRedis, () => {
  const policy: Policy = { capacity: 10, tokensPerSecond: "1/h", name: "batched" };

  it("contain the calls of one tick from all stores on the client, in order", async () => {
    const client = spiedClient();
    const one = createLimiter({ policy, store: redisStore(client), ...storeOnly });
    const two = createLimiter({ policy, store: redisStore(client, { ttlMs: "2h" }), ...storeOnly });
    const decisions = await Promise.all(Array.from({ length: 30 }, (_, i) => (i % 2 ? one : two).consume("k")));
    expect(client.calls).toHaveLength(1);
    expect(decisions.map(({ remaining }) => remaining).slice(0, 11)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0]);
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(10);
  });

  it("are split into calls that don't block the server for long", async () => {
    const client = spiedClient();
    const limiter = createLimiter({ policy, store: redisStore(client), ...storeOnly });
    await Promise.all(Array.from({ length: 1000 }, (_, i) => limiter.consume(`k${i}`)));
    for (const { keys } of client.calls) expect(keys.length).toBeLessThanOrEqual(128);
    expect(client.calls.reduce((sum, { keys }) => sum + keys.length, 0)).toBe(1000);
  });

  it("contain fewer sliding logs than other buckets, because logs take more server time", async () => {
    const client = spiedClient();
    const limiter = createLimiter({ policy: slidingLog("10/h"), store: redisStore(client), ...storeOnly });
    await Promise.all(Array.from({ length: 100 }, (_, i) => limiter.consume(`k${i}`)));
    for (const { keys } of client.calls) expect(keys.length).toBeLessThanOrEqual(8);
    expect(client.calls).toHaveLength(13);
    // A group is never split, whatever its weight.
    client.calls.length = 0;
    await consumeAll(Array.from({ length: 16 }, (_, i) => ({ limiter, key: `k${i}`, cost: 1 })));
    expect(client.calls).toHaveLength(1);
  });

  it("reject only the caller whose key holds a foreign value or a wrong type", async () => {
    const limiter = createLimiter({ policy, store: redisStore(spiedClient()), ...storeOnly });
    for (const wrong of ["text", "-5", "1.5", "nan", "inf", "1:2:3", "", "99999999999999999999", "5:x"]) {
      await redis.set("s1:{text}b10h:batched", wrong, "PX", 60_000);
      const [good, bad] = await Promise.allSettled([limiter.consume("fine"), limiter.consume("text")]);
      expect(good).toMatchObject({ status: "fulfilled" });
      expect(bad, wrong).toMatchObject({ status: "rejected", reason: { code: "foreign-value" } });
      expect(await redis.get("s1:{text}b10h:batched")).toBe(wrong);
    }
    await redis.lpush("s1:{list}b10h:batched", "x");
    await redis.pexpire("s1:{list}b10h:batched", 60_000);
    const [bad, good] = await Promise.allSettled([limiter.consume("list"), limiter.consume("good")]);
    expect([bad?.status, good?.status]).toEqual(["rejected", "fulfilled"]);
    // A reset repairs it.
    await limiter.reset("list");
    expect((await limiter.consume("list")).remaining).toBe(9);
  });

  it("report the stored key of a corrupt bucket, also within a group", async () => {
    const events: string[] = [];
    const store = redisStore(spiedClient());
    const limiterNamed = (name: string) =>
      createLimiter({
        policy: { ...policy, name },
        store,
        onEvent: (event) => events.push(event.type === "foreign-value" ? event.error.option : event.type),
      });
    const limiters = ["first", "second", "third"].map(limiterNamed);
    await redis.set("s1:{bad}b10h:second", "garbage", "PX", 60_000);
    expect((await combine(limiters).consume("bad")).degraded).toBe(true);
    expect(events.filter((event) => event !== "warning")).toEqual(Array(3).fill("s1:{bad}b10h:second"));
  });

  it("are not affected by a secretKeys function that throws", async () => {
    const store = redisStore(spiedClient(), {
      secretKeys(key) {
        if (key === "evil") throw new Error("no");
        return false;
      },
    });
    const limiter = createLimiter({ policy, store });
    for (let i = 0; i < 6; i++) {
      await expect(limiter.consume("evil")).rejects.toMatchObject({ code: "invalid-option", option: "secretKeys" });
    }
    expect((await limiter.consume("good")).degraded).toBeUndefined();
  });

  it.each(ALGORITHMS)(
    "%s: survive garbage in the store, which affects no other call of the batch",
    async (algorithm) => {
      const random = randomFrom(Math.floor(Math.random() * 2 ** 31));
      const limiter = createLimiter({
        policy: policyOf(algorithm, 10, 60_000, "g"),
        store: redisStore(spiedClient()),
        ...storeOnly,
      });
      const { storedKey } = await limiter.inspect("k");
      const pieces = ["0", "1", "17", ":", " ", "x", "9007199254740993", "-", ".", "e5", "1790000000000", "\0", "nan"];
      for (let i = 0; i < 300; i++) {
        const text = Array.from({ length: random.whole(1, 6) }, () => random.pick(pieces)).join("");
        await redis.set(storedKey, text, "PX", 60_000);
        const [, other] = await Promise.allSettled([limiter.consume("k"), limiter.consume(`other${i}`)]);
        expect(other, `seed ${random.seed}, ${algorithm}: ${JSON.stringify(text)}`).toMatchObject({
          status: "fulfilled",
          value: { allowed: true, remaining: 9 },
        });
      }
    },
  );
});
