/** What the Redis store promises beyond the contract kit: keys, batches, expiry, and what it does to a bad reply. */
import { Redis } from "ioredis";
import { combine, consumeAll, createLimiter, type Policy, SluiceError, slidingLog, tokenBucket } from "sluice";
import { type IoredisLike, redisRateLimiter, redisStore } from "sluice/redis";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { hashSlot } from "../../src/stores/redis/hash-slot.ts";
import { sha } from "../../src/stores/redis/script.ts";
import { keyTag, storedKey } from "../../src/stores/stored-key.ts";
import { randomFrom } from "../../src/testing/random.ts";
import { ALGORITHMS, policyOf } from "../../src/testing/subject.ts";
import { redis, server } from "./own-redis.ts";

const bare = { onStoreError: "throw", localDenialMs: 0, deadlineMs: 20_000 } as const;

beforeEach(() => redis.flushdb());
afterEach(async () => {
  for (const key of await redis.keys("*"))
    expect(await redis.pttl(key), `no key is left for ever: ${key}`).not.toBe(-1);
});

/** ioredis, with what it was asked to do. */
function spied(): IoredisLike & { calls: { command: string; keys: string[] }[] } {
  const calls: { command: string; keys: string[] }[] = [];
  return {
    calls,
    get status() {
      return redis.status;
    },
    evalsha(hash, count, ...rest) {
      calls.push({ command: "evalsha", keys: rest.slice(0, count) });
      return redis.evalsha(hash, count, ...rest);
    },
    eval(text, count, ...rest) {
      calls.push({ command: "eval", keys: rest.slice(0, count) });
      return redis.eval(text, count, ...rest);
    },
  };
}

describe("stored keys", () => {
  it("are short, readable and carry version, key and policy", async () => {
    const limiter = redisRateLimiter(redis, tokenBucket("10/s", { burst: 600 }));
    await limiter.consume("user:1234567890");
    expect(await redis.keys("*")).toEqual(["s1:{user:1234567890}b10/s,600"]);
    expect((await limiter.inspect("user:1234567890")).storedKey).toBe("s1:{user:1234567890}b10/s,600");
    await redisRateLimiter(redis, tokenBucket("10/s", { name: "api", prefix: "eu" })).consume("k");
    expect(await redis.keys("*{k}*")).toEqual(["s1:{k}b.2:eu1s:api"]);
  });

  it("fit one small string", async () => {
    await redisRateLimiter(redis, tokenBucket("10/s", { burst: 600 })).consume("123456789012345");
    const [key] = (await redis.keys("*")) as [string];
    expect(await redis.type(key)).toBe("string");
    expect(await redis.object("ENCODING", key)).toBe("int");
    expect(await redis.memory("USAGE", key)).toBeLessThanOrEqual(72);
  });

  it("never collide, whatever is in them", () => {
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
      // Redis sees bytes: a lone surrogate has none of its own.
      const bytes = Buffer.from(tag).toString("latin1");
      expect(seen.get(bytes) ?? key, `seed ${random.seed}: ${JSON.stringify([key, seen.get(bytes)])}`).toBe(key);
      seen.set(bytes, key);
      expect(tag).not.toMatch(/[{}]/);
    }
  });

  it("give no caller a cluster slot to choose", async () => {
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

  it("of long and secret keys are a tag", async () => {
    const secret = "sk_live_canary_4711";
    const store = redisStore(redis, { secretKeys: (key) => key.startsWith("sk_"), hmacSecret: "pepper" });
    const limiter = createLimiter({ policy: tokenBucket("1/h", { burst: 2 }), store, ...bare });
    const long = "k".repeat(10_000);
    for (const key of [secret, long, "ü".repeat(65), "readable"]) {
      expect((await limiter.consume(key, 2)).allowed).toBe(true);
      expect((await limiter.consume(key)).allowed).toBe(false);
    }
    const keys = await redis.keys("*");
    expect(keys.filter((key) => /^s1:\{#[0-9a-f]{32}\}/.test(key))).toHaveLength(3);
    expect(keys.filter((key) => key.includes("readable"))).toHaveLength(1);
    for (const key of keys) expect(key.length).toBeLessThan(200);
    // Without the secret of the deployment the tag is another one.
    expect(keyTag(secret, { secretKeys: true })).not.toBe(keyTag(secret, { secretKeys: true, hmacSecret: "pepper" }));
    await limiter.reset(secret);
    expect((await limiter.consume(secret)).allowed).toBe(true);
  });

  it("a secret appears nowhere: not in keys, commands, errors or events", async () => {
    const secret = "sk_live_canary_4712";
    const monitor = await redis.monitor();
    const heard: string[] = [];
    monitor.on("monitor", (_time, args) => heard.push(JSON.stringify(args)));
    const store = redisStore(redis, { secretKeys: true, hmacSecret: "pepper" });
    const events: unknown[] = [];
    const limiter = createLimiter({
      policy: tokenBucket("1/h", { burst: 2 }),
      store,
      ...bare,
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
    expect(heard.length).toBeGreaterThan(5);
    for (const text of [...heard, key ?? "", String((error as Error).stack), JSON.stringify(events)]) {
      expect(text).not.toContain(secret);
    }
    expect(error).toMatchObject({ code: "foreign-value" });
  });
});

describe("two policies on one connection", () => {
  it("never touch each other's keys", async () => {
    const client = spied();
    const a = redisRateLimiter(client, tokenBucket("1/h", { burst: 3, name: "a" }));
    const b = redisRateLimiter(client, slidingLog("3/h", { name: "b" }));
    for (const key of ["k", "{k}", "k}", "a:b", " ", "🦦", "x".repeat(300)]) {
      await Promise.all([a.consume(key, 3), b.consume(key, 2)]);
      expect((await a.peek(key)).remaining, key).toBe(0);
      expect((await b.peek(key)).remaining, key).toBe(1);
    }
    expect(await redis.dbsize()).toBe(14);
  });

  it("share one call, also of different algorithms, and `combine` of them is one call", async () => {
    const client = spied();
    const store = redisStore(client);
    const limiters = ALGORITHMS.map((algorithm) =>
      createLimiter({ policy: policyOf(algorithm, 5, 60_000, algorithm), store, ...bare }),
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

  it("of redisRateLimiter share a store, so that consumeAll over two keys is one atomic call", async () => {
    const client = spied();
    const user = redisRateLimiter(client, tokenBucket("1/h", { burst: 3, name: "user" }), { localDenialMs: 0 });
    const address = redisRateLimiter(client, tokenBucket("1/h", { burst: 2, name: "address" }), { localDenialMs: 0 });
    const spend = () =>
      consumeAll([
        { limiter: user, key: "u" },
        { limiter: address, key: "10.0.0.1" },
      ]);
    expect([await spend(), await spend(), await spend()].map(({ allowed }) => allowed)).toEqual([true, true, false]);
    expect(client.calls).toHaveLength(3);
    expect((await user.peek("u")).remaining).toBe(1);
  });
});

describe("batches", () => {
  const policy: Policy = { capacity: 10, tokensPerSecond: "1/h", name: "batched" };

  it("hold what is asked in one tick, from any number of stores on the client, in order", async () => {
    const client = spied();
    const one = createLimiter({ policy, store: redisStore(client), ...bare });
    const two = createLimiter({ policy, store: redisStore(client, { ttlMs: "2h" }), ...bare });
    const decisions = await Promise.all(Array.from({ length: 30 }, (_, i) => (i % 2 ? one : two).consume("k")));
    expect(client.calls).toHaveLength(1);
    expect(decisions.map(({ remaining }) => remaining).slice(0, 11)).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 0]);
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(10);
  });

  it("are cut where a call would hold up the server", async () => {
    const client = spied();
    const limiter = createLimiter({ policy, store: redisStore(client), ...bare });
    await Promise.all(Array.from({ length: 1000 }, (_, i) => limiter.consume(`k${i}`)));
    for (const { keys } of client.calls) expect(keys.length).toBeLessThanOrEqual(128);
    expect(client.calls.reduce((sum, { keys }) => sum + keys.length, 0)).toBe(1000);
  });

  it("hold fewer sliding logs than other buckets, which take less of the server's time", async () => {
    const client = spied();
    const limiter = createLimiter({ policy: slidingLog("10/h"), store: redisStore(client), ...bare });
    await Promise.all(Array.from({ length: 100 }, (_, i) => limiter.consume(`k${i}`)));
    for (const { keys } of client.calls) expect(keys.length).toBeLessThanOrEqual(8);
    expect(client.calls).toHaveLength(13);
    // A group is one step, however much it weighs.
    client.calls.length = 0;
    await consumeAll(Array.from({ length: 16 }, (_, i) => ({ limiter, key: `k${i}`, cost: 1 })));
    expect(client.calls).toHaveLength(1);
  });

  it("make a foreign value or a wrong type the error of its own caller", async () => {
    const limiter = createLimiter({ policy, store: redisStore(spied()), ...bare });
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
    // A reset mends it.
    await limiter.reset("list");
    expect((await limiter.consume("list")).remaining).toBe(9);
  });

  it("name the bucket that is spoilt, also when others were asked with it", async () => {
    const told: string[] = [];
    const store = redisStore(spied());
    const of = (name: string) =>
      createLimiter({
        policy: { ...policy, name },
        store,
        onEvent: (event) => told.push(event.type === "foreign-value" ? event.error.option : event.type),
      });
    const limiters = ["first", "second", "third"].map(of);
    await redis.set("s1:{bad}b10h:second", "garbage", "PX", 60_000);
    expect((await combine(limiters).consume("bad")).degraded).toBe(true);
    expect(told.filter((one) => one !== "warning")).toEqual(Array(3).fill("s1:{bad}b10h:second"));
  });

  it("are not harmed by a function of the user's that throws", async () => {
    const store = redisStore(spied(), {
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
    "%s: garbage in the store is told, never counted, and never breaks the batch",
    async (algorithm) => {
      const random = randomFrom(Math.floor(Math.random() * 2 ** 31));
      const limiter = createLimiter({
        policy: policyOf(algorithm, 10, 60_000, "g"),
        store: redisStore(spied()),
        ...bare,
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

describe("the script's own life", () => {
  it("survives SCRIPT FLUSH: one EVAL, then by hash again", async () => {
    const client = spied();
    const limiter = createLimiter({ policy: tokenBucket("1/h", { burst: 1000 }), store: redisStore(client), ...bare });
    for (let i = 0; i < 100; i++) {
      await redis.script("FLUSH");
      expect((await limiter.consume("k")).remaining).toBe(999 - i);
    }
    expect(client.calls.filter(({ command }) => command === "eval")).toHaveLength(100);
    expect(client.calls.filter(({ command }) => command === "evalsha")).toHaveLength(100);
    await limiter.consume("k");
    expect(client.calls.at(-1)?.command).toBe("evalsha");
    expect(await redis.script("EXISTS", sha)).toEqual([1]);
  });

  it("never tries a third time", async () => {
    let calls = 0;
    const fail = async () => {
      calls++;
      throw new Error("NOSCRIPT No matching script");
    };
    const limiter = createLimiter({
      policy: tokenBucket("1/s"),
      store: redisStore({ status: "ready", evalsha: fail, eval: fail }),
      ...bare,
    });
    await expect(limiter.consume("k")).rejects.toMatchObject({ code: "store-unavailable" });
    expect(calls).toBe(2);
  });

  it("tries READONLY once more, and nothing else", async () => {
    for (const [message, expected] of [
      ["READONLY You can't write against a read only replica.", 2],
      ["ERR anything", 1],
      ["Connection is closed.", 1],
      ["OOM command not allowed", 1],
      ["BUSY Redis is busy", 1],
    ] as const) {
      let calls = 0;
      const fail = async () => {
        calls++;
        throw new Error(message);
      };
      const store = redisStore({ status: "ready", evalsha: fail, eval: fail });
      await expect(createLimiter({ policy: tokenBucket("1/s"), store, ...bare }).consume("k")).rejects.toThrow(message);
      expect(calls, message).toBe(expected);
    }
  });

  it("tries READONLY once more also when the server says it from within the script", async () => {
    const replica = new Redis(server.port);
    let calls = 0;
    const client: IoredisLike = {
      status: "ready",
      evalsha: async (hash, count, ...rest) => {
        calls++;
        // A master that has just become a replica, as Redis reports it to a script.
        if (calls === 1) return ["READONLY You can't write against a read only replica."];
        return replica.evalsha(hash, count, ...rest);
      },
      eval: (text, count, ...rest) => replica.eval(text, count, ...rest),
    };
    const limiter = createLimiter({
      policy: tokenBucket("1/h", { burst: 5, name: "r" }),
      store: redisStore(client),
      ...bare,
    });
    expect((await limiter.consume("k")).remaining).toBe(4);
    expect(calls).toBe(2);
    replica.disconnect();
  });

  it("refuses arguments that it does not understand, and writes nothing", async () => {
    await redis.script("LOAD", (await import("../../src/stores/redis/script.ts")).script);
    const good = "token-bucket take 1 10 1000 100 1 0";
    const bad = [
      [],
      ["1 1"],
      ["0 1", good],
      ["1 0", good],
      ["2 1", good],
      ["1 2", good, good],
      ["1 1", good.replace("take", "steal")],
      ["1 1", good.replace("token-bucket", "bucket")],
      ["1 1", good.replace(" 1 10 ", " -1 10 ")],
      ["1 1", good.replace(" 1 10 ", " nan 10 ")],
      ["1 1", good.replace(" 1 10 ", " 0.5 10 ")],
      ["1 1", `${good} 5`],
      ["1 1", `${good.replace("take", "refund")} `],
      ["1 1", `${good.replace("take", "refund")} 5 5`],
      ["x", good],
    ];
    for (const args of bad) {
      await expect(redis.evalsha(sha, 1, "k", ...args), args.join(" | ")).rejects.toThrow(
        "arguments of another version",
      );
    }
    const random = randomFrom(Math.floor(Math.random() * 2 ** 31));
    const pieces = [
      "1",
      "0",
      " ",
      "token-bucket",
      "take",
      "1e400",
      "nan",
      "-1",
      "refund",
      ":",
      "999999999999999999999",
    ];
    for (let i = 0; i < 3000; i++) {
      const args = Array.from({ length: random.whole(0, 3) }, () =>
        Array.from({ length: random.whole(1, 12) }, () => random.pick(pieces)).join(random.pick(["", " "])),
      );
      const reply = await redis.evalsha(sha, 1, "k", ...args).catch((error: Error) => error);
      expect(reply, `seed ${random.seed}: ${JSON.stringify(args)}`).toBeInstanceOf(Error);
      expect((reply as Error).message).toContain("arguments of another version");
    }
    expect(await redis.dbsize()).toBe(0);
  });
});

describe("expiry", () => {
  it.each(ALGORITHMS)("%s: a value lives until its bucket is full", async (algorithm) => {
    const limiter = createLimiter({ policy: policyOf(algorithm, 10, 60_000, "t"), store: redisStore(redis), ...bare });
    const before = performance.now();
    const { resetAfterMs } = await limiter.consume("k", 4);
    const { storedKey, ttlMs } = await limiter.inspect("k");
    const pttl = await redis.pttl(storedKey);
    const took = performance.now() - before;
    for (const left of [ttlMs as number, pttl]) {
      expect(left).toBeLessThanOrEqual(resetAfterMs);
      expect(left).toBeGreaterThanOrEqual(resetAfterMs - took - 2);
    }
  });

  it("leaves nothing behind after the longest time to live", async () => {
    const limiters = ALGORITHMS.map((algorithm) =>
      createLimiter({ policy: policyOf(algorithm, 10, 200, algorithm), store: redisStore(redis), ...bare }),
    );
    await Promise.all(limiters.flatMap((limiter) => ["a", "b", "c"].map((key) => limiter.consume(key, 10))));
    expect(await redis.dbsize()).toBe(15);
    const until = performance.now() + 5000;
    // Redis forgets by itself, without being asked for the keys.
    while ((await redis.dbsize()) > 0 && performance.now() < until) await new Promise((r) => setTimeout(r, 20));
    expect(await redis.dbsize()).toBe(0);
  });

  it("ttlMs lengthens it, and never shortens", async () => {
    const policy = tokenBucket("10/s", { burst: 10, name: "t" });
    await createLimiter({ policy, store: redisStore(redis, { ttlMs: "1h" }), ...bare }).consume("long");
    expect(await redis.pttl("s1:{long}b1s:t")).toBeGreaterThan(3_590_000);
    await createLimiter({ policy, store: redisStore(redis, { ttlMs: 1 }), ...bare }).consume("short", 10);
    expect(await redis.pttl("s1:{short}b1s:t")).toBeGreaterThan(900);
  });

  it("a key that lost its expiry gets one again with the next charge", async () => {
    const limiter = createLimiter({
      policy: tokenBucket("10/s", { burst: 10, name: "t" }),
      store: redisStore(redis),
      ...bare,
    });
    await limiter.consume("k");
    await redis.persist("s1:{k}b1s:t");
    await limiter.consume("k");
    expect(await redis.pttl("s1:{k}b1s:t")).toBeGreaterThan(0);
  });

  it("a refund to full and a reset leave no key", async () => {
    for (const algorithm of ALGORITHMS) {
      const limiter = createLimiter({
        policy: policyOf(algorithm, 10, 60_000, "t"),
        store: redisStore(redis),
        ...bare,
      });
      await limiter.consume("k", 4);
      await limiter.refund("k", 4);
      expect(await redis.dbsize(), algorithm).toBe(0);
      await limiter.consume("k", 4);
      await limiter.reset("k");
      await limiter.refund("absent", 4);
      await limiter.peek("absent");
      await limiter.consume("absent", 0);
      await limiter.consume("absent", 11);
      expect(await redis.dbsize(), algorithm).toBe(0);
      await limiter.dispose();
    }
  });
});

describe("a denial", () => {
  it.each(ALGORITHMS)("%s: writes nothing", async (algorithm) => {
    const limiter = createLimiter({
      policy: policyOf(algorithm, 3, 3_600_000, "d"),
      store: redisStore(redis),
      ...bare,
    });
    await limiter.consume("k", 3);
    const { storedKey } = await limiter.inspect("k");
    const before = await redis.dumpBuffer(storedKey);
    await redis.config("RESETSTAT");
    for (let i = 0; i < 20; i++) expect((await limiter.consume("k")).allowed).toBe(false);
    expect((await limiter.consume("k", 4)).retryAfterMs).toBeNull();
    expect(await redis.dumpBuffer(storedKey)).toEqual(before);
    const stats = await redis.info("commandstats");
    expect(stats).not.toMatch(/cmdstat_(set|del|rpush|lset|ltrim|pexpire):/);
  });
});

describe("issue 13: a sliding log of 10 000 grants", () => {
  const policy = slidingLog({ limit: 10_000, windowMs: 3_600_000, name: "long" });
  const [grants, span] = [9_900, 3_000_000];

  /** Fills the log of `k`, with grants ever closer to one another. */
  async function fill(key: string): Promise<void> {
    const now = Date.now();
    const list = ["0"];
    for (let i = 1; i <= grants; i++) {
      list.push(`${now + 500_000 + Math.floor(span * (1 - (1 - i / grants) ** 3))}`, `${i}`);
    }
    for (let i = 0; i < list.length; i += 1000) await redis.rpush(key, ...list.slice(i, i + 1000));
    await redis.pexpire(key, 3_600_000);
  }

  /** How many commands the script runs to decide. */
  async function commandsOf(decide: () => Promise<unknown>): Promise<number> {
    await redis.config("RESETSTAT");
    await decide();
    const stats = await redis.info("commandstats");
    const counts = [...stats.matchAll(/cmdstat_([a-z|]+):calls=(\d+)/g)];
    const others = ["evalsha", "config|resetstat", "info", "eval"];
    return counts.reduce((sum, [, name, calls]) => sum + (others.includes(name as string) ? 0 : Number(calls)), 0);
  }

  it("is decided by reading a few grants of it", async () => {
    const limiter = createLimiter({ policy, store: redisStore(redis), ...bare });
    const { storedKey } = await limiter.inspect("k");
    await fill(storedKey);
    expect((await limiter.peek("k", 100)).allowed).toBe(true);
    expect((await limiter.peek("k", 101)).allowed).toBe(false);
    expect(await commandsOf(() => limiter.peek("k"))).toBeLessThanOrEqual(4);
    expect(await commandsOf(() => limiter.consume("k"))).toBeLessThanOrEqual(6);
    for (const cost of [1000, 5000, 9999]) {
      expect(await commandsOf(() => limiter.consume("k", cost)), `denied at ${cost}`).toBeLessThanOrEqual(4 + 3 + 14);
      expect(await commandsOf(() => limiter.refund("k", 1)), `refund at ${cost}`).toBeLessThanOrEqual(4 + 3 + 14 + 3);
    }
    await expect(limiter.inspect("k")).resolves.toMatchObject({
      raw: expect.stringMatching(/^0 \d+ 1 \d+ 2 .* \.\.\.$/),
    });
  });

  it("needs less than 16 bytes for a grant", async () => {
    await fill("long");
    expect(await redis.memory("USAGE", "long", "SAMPLES", 0)).toBeLessThan(16 * grants);
  });
});

describe("a state one hour ahead", () => {
  it.each(ALGORITHMS)("%s: locks nobody out for longer than one refill", async (algorithm) => {
    const limiter = createLimiter({ policy: policyOf(algorithm, 4, 400, "h"), store: redisStore(redis), ...bare });
    const hour = 3_600_000;
    const ahead = Date.now() + hour;
    const { storedKey } = await limiter.inspect("k");
    const value = { "fixed-window": `${ahead}:4`, "sliding-window": `${ahead}:4:4` };
    if (algorithm === "sliding-log") await redis.rpush(storedKey, 0, ahead - 1, 2, ahead, 4);
    else await redis.set(storedKey, value[algorithm as keyof typeof value] ?? String(ahead));
    await redis.pexpire(storedKey, 2 * hour);
    const denied = await limiter.consume("k", 4);
    expect(denied.allowed).toBe(false);
    const longest = algorithm === "sliding-window" ? 800 : 400;
    expect(denied.resetAfterMs).toBeLessThanOrEqual(longest);
    expect(await redis.pttl(storedKey), "healed by the denial").toBeLessThanOrEqual(longest);
    await new Promise((resolve) => setTimeout(resolve, denied.resetAfterMs));
    expect((await limiter.consume("k", 4)).allowed).toBe(true);
  });
});

describe("a policy whose numbers change", () => {
  it("keeps its state, in Redis as in memory", async () => {
    const of = (capacity: number, windowMs = 36_000_000) =>
      createLimiter({
        policy: { capacity, tokensPerSecond: (capacity * 1000) / windowMs, name: "plan" },
        store: redisStore(redis),
        ...bare,
      });
    await of(10).consume("k", 10);
    expect((await of(20).peek("k")).remaining).toBe(0);
    expect((await of(5).peek("k")).remaining).toBe(0);
    // Another fill time starts new buckets.
    expect((await of(10, 1000).peek("k")).remaining).toBe(10);
  });
});

describe("a caller that waits with setTimeout(retryAfterMs)", () => {
  it("always reaches Redis again, although timers fire early, 500 times", async () => {
    const client = spied();
    const limiter = redisRateLimiter(client, { capacity: 3, tokensPerSecond: "3/300ms", name: "waits" });
    const unasked: string[] = [];
    const wait = async (key: string) => {
      let decision = await limiter.consume(key);
      while (decision.allowed) decision = await limiter.consume(key);
      await new Promise((resolve) => setTimeout(resolve, decision.retryAfterMs as number));
      const before = client.calls.filter(({ keys }) => keys.some((name) => name.includes(`{${key}}`))).length;
      await limiter.consume(key);
      const after = client.calls.filter(({ keys }) => keys.some((name) => name.includes(`{${key}}`))).length;
      if (after === before) unasked.push(key);
    };
    for (let wave = 0; wave < 10; wave++) {
      client.calls.length = 0;
      await Promise.all(Array.from({ length: 50 }, (_, i) => wait(`w${wave}-${i}-`)));
    }
    expect(unasked, "denied from the cache").toEqual([]);
  });
});

describe("least privilege", () => {
  it("needs no command and no key but those that the docs name", async () => {
    await redis.acl("SETUSER", "sluice", "reset", "on", ">pass", "~s1:*", "+eval", "+evalsha", "+get", "+set", "+del");
    await redis.acl("SETUSER", "sluice", "+pttl", "+time", "+select", "+info", "+ping");
    await redis.acl("SETUSER", "sluice", "+lrange", "+llen", "+rpush", "+lpush", "+lset", "+ltrim", "+pexpire");
    const client = new Redis(server.port, { username: "sluice", password: "pass" });
    try {
      for (const algorithm of ALGORITHMS) {
        const limiter = createLimiter({
          policy: policyOf(algorithm, 3, 60_000, "acl"),
          store: redisStore(client),
          ...bare,
        });
        await limiter.consume("k");
        await limiter.refund("k", 1);
        await limiter.inspect("k");
        await limiter.reset("k");
      }
      await expect(client.get("other")).rejects.toThrow("NOPERM");
    } finally {
      client.disconnect();
      await redis.acl("DELUSER", "sluice");
    }
  });
});

describe("held wrong", () => {
  it("says what is wrong", () => {
    const bad = (run: () => unknown) => {
      try {
        run();
      } catch (error) {
        return error as SluiceError;
      }
      throw new Error("not refused");
    };
    expect(bad(() => redisStore(undefined as never)).message).toBe(
      "client must be an ioredis, iovalkey or node-redis client (for @upstash/redis, use sluice/upstash), but received undefined. See docs/errors.md#invalid-option",
    );
    expect(bad(() => redisStore({} as never))).toBeInstanceOf(SluiceError);
    expect(bad(() => redisStore(redis, { policy: {} } as never)).message).toContain("createLimiter");
    expect(bad(() => redisStore(redis, { ttl: 5 } as never))).toMatchObject({ code: "unknown-option", option: "ttl" });
    expect(bad(() => redisStore(redis, { ttlMs: -1 }))).toMatchObject({ code: "invalid-option", option: "ttlMs" });
    expect(bad(() => redisStore(redis, { ttlMs: "soon" }))).toMatchObject({ option: "ttlMs" });
    expect(bad(() => redisStore(redis, { secretKeys: "all" as never }))).toMatchObject({ option: "secretKeys" });
    expect(bad(() => redisStore(redis, { hmacSecret: "" })).message).not.toContain("received");
    expect(bad(() => redisRateLimiter(redis, tokenBucket("1/s"), { onStoreError: "deny" as never }))).toMatchObject({
      code: "invalid-option",
      option: "onStoreError",
    });
  });

  it("tells a node-redis client that was never connected", async () => {
    const { createClient } = await import("redis");
    const limiter = createLimiter({
      policy: tokenBucket("1/s"),
      store: redisStore(createClient({ url: server.url })),
      onStoreError: "throw",
    });
    await expect(limiter.consume("k")).rejects.toThrow(
      "The Redis client is not connected. With node-redis, call await client.connect() first.",
    );
  });
});
