/** The names of buckets in Redis. */
import { createLimiter, tokenBucket } from "sluice";
import { redisRateLimiter, redisStore } from "sluice/redis";
import { describe, expect, it } from "vitest";
import { hashSlot } from "../../src/stores/redis/hash-slot.ts";
import { keyTag, storedKey } from "../../src/stores/stored-key.ts";
import { randomFrom } from "../../src/testing/random.ts";
import { withRedis } from "../servers/needs.ts";
import { redis } from "./own-redis.ts";
import { storeOnly, withEmptyDatabase } from "./spied-client.ts";

withEmptyDatabase();

describe("stored keys", withRedis, () => {
  it("contain version, key and policy in readable form", async () => {
    const limiter = redisRateLimiter(redis, tokenBucket("10/s", { burst: 600 }));
    await limiter.consume("user:1234567890");
    expect(await redis.keys("*")).toEqual(["s1:{user:1234567890}b10/s,600"]);
    expect((await limiter.inspect("user:1234567890")).storedKey).toBe("s1:{user:1234567890}b10/s,600");
    await redisRateLimiter(redis, tokenBucket("10/s", { name: "api", prefix: "eu" })).consume("k");
    expect(await redis.keys("*{k}*")).toEqual(["s1:{k}b.2:eu1s:api"]);
  });

  it("have a value of one small integer", async () => {
    await redisRateLimiter(redis, tokenBucket("10/s", { burst: 600 })).consume("123456789012345");
    const [key] = (await redis.keys("*")) as [string];
    expect(await redis.type(key)).toBe("string");
    expect(await redis.object("ENCODING", key)).toBe("int");
    expect(await redis.memory("USAGE", key)).toBeLessThanOrEqual(72);
  });

  it("never collide, whatever characters the keys contain", () => {
    const random = randomFrom(Math.floor(Math.random() * 2 ** 31));
    const parts = [
      "a",
      "b",
      ":",
      "{",
      "}",
      "%",
      "#",
      "\0",
      "\r",
      "\n",
      " ",
      "é",
      "🦦",
      "\ud800",
      "\udc00",
      "25",
      "007b",
    ];
    const seen = new Map<string, string>();
    for (let i = 0; i < 200_000; i++) {
      const key = Array.from({ length: random.whole(1, 6) }, () => random.pick(parts)).join("");
      const tag = keyTag(key, {});
      // Redis compares bytes: in UTF-8 all lone surrogates are the same.
      const bytes = Buffer.from(tag).toString("latin1");
      expect(seen.get(bytes) ?? key, `seed ${random.seed}: ${JSON.stringify([key, seen.get(bytes)])}`).toBe(key);
      seen.set(bytes, key);
      expect(tag).not.toMatch(/[{}]/);
    }
  });

  it("don't let a caller choose the cluster slot", async () => {
    for (const key of ["{a}b{c}", "{}", "}{", "plain", "user:{1}", "🦦", "x".repeat(5000)]) {
      const stored = storedKey(keyTag(key, {}), "b10/s,600");
      const own = (await redis.cluster("KEYSLOT", stored).catch(() => undefined)) as number | undefined;
      if (own !== undefined) expect(own, key).toBe(hashSlot(keyTag(key, {})));
    }
    const counts = new Array<number>(64).fill(0);
    for (let i = 0; i < 10_000; i++) (counts[hashSlot(keyTag(`{a}${i}`, {})) % 64] as number)++;
    const mean = 10_000 / 64;
    const chiSquare = counts.reduce((sum, count) => sum + (count - mean) ** 2 / mean, 0);
    expect(chiSquare, "63 degrees of freedom, one chance in a million").toBeLessThan(135);
  });

  it("replace long and secret keys by an HMAC tag", async () => {
    const secret = "sk_live_canary_4711";
    const store = redisStore(redis, { secretKeys: (key) => key.startsWith("sk_"), hmacSecret: "pepper" });
    const limiter = createLimiter({ policy: tokenBucket("1/h", { burst: 2 }), store, ...storeOnly });
    const long = "k".repeat(10_000);
    for (const key of [secret, long, "ü".repeat(65), "readable"]) {
      expect((await limiter.consume(key, 2)).allowed).toBe(true);
      expect((await limiter.consume(key)).allowed).toBe(false);
    }
    const keys = await redis.keys("*");
    expect(keys.filter((key) => /^s1:\{#[0-9a-f]{32}\}/.test(key))).toHaveLength(3);
    expect(keys.filter((key) => key.includes("readable"))).toHaveLength(1);
    for (const key of keys) expect(key.length).toBeLessThan(200);
    // Another hmacSecret gives another tag.
    expect(keyTag(secret, { secretKeys: true })).not.toBe(keyTag(secret, { secretKeys: true, hmacSecret: "pepper" }));
    await limiter.reset(secret);
    expect((await limiter.consume(secret)).allowed).toBe(true);
  });

  it("keep a secret out of keys, commands, errors and events", async () => {
    const secret = "sk_live_canary_4712";
    const monitor = await redis.monitor();
    const commands: string[] = [];
    monitor.on("monitor", (_time, args) => commands.push(JSON.stringify(args)));
    const store = redisStore(redis, { secretKeys: true, hmacSecret: "pepper" });
    const events: unknown[] = [];
    const limiter = createLimiter({
      policy: tokenBucket("1/h", { burst: 2 }),
      store,
      ...storeOnly,
      onEvent: (event) => events.push(event),
    });
    await limiter.consume(secret);
    await limiter.peek(secret);
    await limiter.refund(secret, 1);
    await limiter.inspect(secret);
    const [key] = (await redis.keys("*")) as [string?];
    await redis.lpush("s1:{#x}", "x");
    await redis.del("s1:{#x}");
    await limiter.consume(secret);
    const [stored] = (await redis.keys("*")) as [string];
    await redis.set(stored, "not ours", "PX", 60_000);
    const error = await limiter.consume(secret).catch((error: unknown) => error);
    await limiter.reset(secret);
    await redis.ping();
    monitor.disconnect();
    expect(commands.length).toBeGreaterThan(5);
    for (const text of [...commands, key ?? "", String((error as Error).stack), JSON.stringify(events)]) {
      expect(text).not.toContain(secret);
    }
    expect(error).toMatchObject({ code: "foreign-value" });
  });
});
