/** Calls of the script: loading, retries, invalid arguments, permissions. */
import { Redis } from "ioredis";
import { createLimiter, tokenBucket } from "sluice";
import { type IoredisLike, redisStore } from "sluice/redis";
import { describe, expect, it } from "vitest";
import { sha } from "../../src/stores/redis/script.ts";
import { randomFrom } from "../../src/testing/random.ts";
import { ALGORITHMS, policyOf } from "../../src/testing/subject.ts";
import { withRedis } from "../servers/needs.ts";
import { redis, server } from "./own-redis.ts";
import { spiedClient, storeOnly, withEmptyDatabase } from "./spied-client.ts";

withEmptyDatabase();

describe("script calls", withRedis, () => {
  it("send the text once after SCRIPT FLUSH, then the hash again", async () => {
    const client = spiedClient();
    const limiter = createLimiter({
      policy: tokenBucket("1/h", { burst: 1000 }),
      store: redisStore(client),
      ...storeOnly,
    });
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

  it("are not retried twice", async () => {
    let calls = 0;
    const fail = async () => {
      calls++;
      throw new Error("NOSCRIPT No matching script");
    };
    const limiter = createLimiter({
      policy: tokenBucket("1/s"),
      store: redisStore({ status: "ready", evalsha: fail, eval: fail }),
      ...storeOnly,
    });
    await expect(limiter.consume("k")).rejects.toMatchObject({ code: "store-unavailable" });
    expect(calls).toBe(2);
  });

  it("are retried once after READONLY and after no other error", async () => {
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
      const limiter = createLimiter({ policy: tokenBucket("1/s"), store, ...storeOnly });
      await expect(limiter.consume("k")).rejects.toMatchObject({ cause: { message } });
      expect(calls, message).toBe(expected);
    }
  });

  it("are retried once if READONLY is raised within the script", async () => {
    const replica = new Redis(server.port);
    let calls = 0;
    const client: IoredisLike = {
      status: "ready",
      evalsha: async (hash, count, ...rest) => {
        calls++;
        // The error of a command in a script, on a master that has just become a replica.
        if (calls === 1) return [2, "READONLY You can't write against a read only replica.", 0];
        return replica.evalsha(hash, count, ...rest);
      },
      eval: (text, count, ...rest) => replica.eval(text, count, ...rest),
    };
    const limiter = createLimiter({
      policy: tokenBucket("1/h", { burst: 5, name: "r" }),
      store: redisStore(client),
      ...storeOnly,
    });
    expect((await limiter.consume("k")).remaining).toBe(4);
    expect(calls).toBe(2);
    replica.disconnect();
  });

  it.each([
    ["of another version", [1, 0, Date.now()]],
    ["without a version", []],
    ["that is not a list", "OK"],
  ])("reject a reply %s without a retry", async (_, reply) => {
    let calls = 0;
    const respond = async () => {
      calls++;
      return reply;
    };
    const store = redisStore({ status: "ready", evalsha: respond, eval: respond });
    const limiter = createLimiter({ policy: tokenBucket("1/s"), store, ...storeOnly });
    await expect(limiter.consume("k")).rejects.toThrow(/The Redis script replied in format \S+, but .* reads 2\./);
    expect(calls).toBe(1);
  });

  it("reject invalid arguments and write nothing", async () => {
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

describe("least privilege", withRedis, () => {
  it("suffices with the commands and keys that docs/stores/redis.md lists", async () => {
    await redis.acl("SETUSER", "sluice", "reset", "on", ">pass", "~s1:*", "+eval", "+evalsha", "+get", "+set", "+del");
    await redis.acl("SETUSER", "sluice", "+pttl", "+time", "+select", "+info", "+ping");
    await redis.acl(
      "SETUSER",
      "sluice",
      "+lrange",
      "+llen",
      "+rpush",
      "+lpush",
      "+lset",
      "+ltrim",
      "+pexpire",
      "+setrange",
    );
    const client = new Redis(server.port, { username: "sluice", password: "pass" });
    try {
      for (const algorithm of ALGORITHMS) {
        const limiter = createLimiter({
          policy: policyOf(algorithm, 3, 60_000, "acl"),
          store: redisStore(client),
          ...storeOnly,
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
