/** The idempotency store in Redis: the contract suite with two clients, the script against the pure steps, failures. */
import { readFileSync } from "node:fs";
import { createClient } from "redis";
import { SluiceError } from "sluice";
import type { BeginResult, IdempotencyClaim, IdempotencyStore } from "sluice/idempotency";
import { redisIdempotencyStore } from "sluice/redis";
import { fakeClock, idempotencySuite } from "sluice/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { idempotencyModule } from "../../scripts/make-redis-script.js";
import * as steps from "../../src/idempotency/entry.ts";
import { formatEntry, parseEntry } from "../../src/idempotency/entry-text.ts";
import { encodeResponse } from "../../src/idempotency/response-text.ts";
import { script, sha } from "../../src/stores/redis/idempotency/script.ts";
import { randomFrom } from "../../src/testing/random.ts";
import { onFakeTime } from "../redis/on-fake-time.ts";
import { redis, server } from "../redis/own-redis.ts";
import { idempotencyOnFakeClock } from "../redis/script-variants.js";
import { spiedClient, withEmptyDatabase } from "../redis/spied-client.ts";
import { describeWithRedis, hasRedis, withRedis } from "../servers/needs.ts";
import { KEYS, startsPerKey } from "./two-processes.ts";

withEmptyDatabase();

let nodeRedis: ReturnType<typeof createClient>;
beforeAll(async () => {
  if (!hasRedis) return;
  nodeRedis = createClient({ url: server.url });
  await nodeRedis.connect();
});
afterAll(() => nodeRedis?.destroy());

const runner = { describe: describeWithRedis, it };

idempotencySuite("Redis, ioredis", () => redisIdempotencyStore(redis), runner);
idempotencySuite("Redis, node-redis", () => redisIdempotencyStore(nodeRedis, { hmacSecret: "secret" }), runner);
idempotencySuite(
  "Redis with a fake clock",
  () => {
    const clock = fakeClock();
    const store = redisIdempotencyStore(onFakeTime(redis, clock, idempotencyOnFakeClock));
    // TTLs pass in real time, leases in that of the fake clock.
    const advance = async (ms: number) => {
      clock.advance(ms);
      await new Promise((resolve) => setTimeout(resolve, ms + 3));
    };
    return { store, advance };
  },
  { ...runner, time: "fake" },
);

const claim: IdempotencyClaim = {
  ...{ scope: "user 7", key: "{choose}a-slot", fingerprint: "f1" },
  ...{ owner: "o1", leaseMs: 30_000, ttlMs: 86_400_000 },
};
const response = { status: 201, headers: { location: "/orders/42" }, body: new TextEncoder().encode('{"id":42}') };

describe("what is stored", withRedis, () => {
  it("is one string with a TTL, under a name without the text of scope and key", async () => {
    const store = redisIdempotencyStore(redis);
    await store.begin(claim);
    const [name = ""] = await redis.keys("*");
    expect(name).toMatch(/^i1:\{[0-9a-f]{32}\}$/);
    expect(await redis.type(name)).toBe("string");
    expect(await redis.get(name)).toMatch(/^i1 claim 1 \d{13} 30000 86400000 o1 f1$/);
    expect(await redis.pttl(name)).toBeGreaterThan(86_300_000);
    expect(await redis.pttl(name)).toBeLessThanOrEqual(86_400_000);
    await store.complete(claim, "o1", response, 60_000);
    expect(await redis.keys("*")).toEqual([name]);
    expect(await redis.get(name)).toBe('i1 response o1 f1\n1[201,{"location":"/orders/42"},"t"]\n{"id":42}');
    expect(await redis.pttl(name)).toBeLessThanOrEqual(60_000);
  });

  it("has a name that never changes, because a new one would let requests run again", async () => {
    await redisIdempotencyStore(redis).begin(claim);
    await redisIdempotencyStore(redis, { hmacSecret: "secret" }).begin(claim);
    expect((await redis.keys("*")).sort()).toMatchInlineSnapshot(`
      [
        "i1:{0ef113a23f794f72d9ee88855ed80d5a}",
        "i1:{8a629f93a70a9a5ad581713dbdd73d7e}",
      ]
    `);
  });
});

describe("a stored value that is foreign", withRedis, () => {
  it.each([
    ["text", "hello"],
    ["an empty string", ""],
    ["a claim without a lease", "i1 claim 1 o1 f1"],
    ["a claim with attempt 0", "i1 claim 0 1 1 1 o1 f1"],
    ["a claim with a huge number", `i1 claim 1 ${"9".repeat(400)} 1 1 o1 f1`],
    ["a later version", "i2 claim 1 1 1 1 o1 f1"],
    ["a list", undefined],
  ])("rejects with foreign-value and is kept: %s", async (_, value) => {
    const store = redisIdempotencyStore(redis);
    await store.begin(claim);
    const [name = ""] = await redis.keys("*");
    if (value === undefined) {
      await redis.del(name);
      await redis.rpush(name, "1");
      await redis.expire(name, 60);
    } else {
      await redis.set(name, value, "EX", 60);
    }
    const before = await redis.dump(name);
    for (const call of callsOf(store)) {
      const error = await call().catch((error: unknown) => error);
      expect(error).toBeInstanceOf(SluiceError);
      expect(error).toMatchObject({ code: "foreign-value", isCallerError: false });
    }
    expect(await redis.dump(name)).toEqual(before);
  });

  it.each(["", '2[200,{},"t"]\n', "1[200,{}", '1{"a":1}\nx', '1[200,{},"?"]\nx', '1[200,{},"b"]\n%'])(
    "rejects with foreign-value: the response %j",
    async (text) => {
      const store = redisIdempotencyStore(redis);
      await store.begin(claim);
      const [name = ""] = await redis.keys("*");
      await redis.set(name, `i1 response o1 f1\n${text}`, "EX", 60);
      await expect(store.read(claim, "f1")).rejects.toMatchObject({ code: "foreign-value" });
    },
  );
});

function callsOf(store: IdempotencyStore): (() => Promise<unknown>)[] {
  return [
    () => store.begin(claim),
    () => store.read(claim, "f1"),
    () => store.renew(claim, "o1", 1000),
    () => store.complete(claim, "o1", response, 1000),
    () => store.release(claim, "o1"),
  ];
}

describe("the script of the idempotency store", withRedis, () => {
  it("is generated from the current Lua files", () => {
    const file = new URL("../../src/stores/redis/idempotency/script.ts", import.meta.url);
    expect(readFileSync(file, "utf8"), "stale: node scripts/make-redis-script.js").toBe(idempotencyModule());
  });

  it("declares no globals and calls only commands of the documented ACL", () => {
    expect(script).not.toMatch(/^function \w+\(/m);
    const commands = [...script.matchAll(/call\('([A-Z]+)'/g)].map(([, command]) => command);
    expect([...new Set(commands)].sort()).toEqual(["DEL", "GET", "GETRANGE", "PTTL", "SET", "TIME"]);
  });

  it("is loaded once, and again after it was lost", async () => {
    const client = spiedClient();
    const store = redisIdempotencyStore(client);
    await redis.script("FLUSH");
    for (const call of callsOf(store)) await call();
    expect(client.calls.map(({ command }) => command)).toEqual(["evalsha", "eval", ...Array(4).fill("evalsha")]);
    await redis.script("FLUSH");
    expect(await store.begin(claim)).toMatchObject({ state: "completed" });
  });

  it.each([
    [[]],
    [["begin"]],
    [["begin", "o", "f", "1"]],
    [["begin", "o", "f", "0", "1"]],
    [["begin", "o", "f", "1", "-1"]],
    [["begin", "o", "f", "2", "1"]],
    [["begin", "o o", "f", "1", "1"]],
    [["begin", "o", "f\n", "1", "1"]],
    [["read"]],
    [["read", "f f"]],
    [["renew", "o", "1e3"]],
    [["complete", "o", "1"]],
    [["complete", "o", "0", "x"]],
    [["release", "*"]],
    [["other", "o"]],
  ])("rejects the arguments %j and writes nothing", async (args) => {
    await expect(redis.eval(script, 1, "entry", ...args)).rejects.toThrow("ERR invalid arguments");
    expect(await redis.exists("entry")).toBe(0);
  });

  it("gives the same results and the same stored text as the pure steps, for 20 000 random steps", async () => {
    const seed = Number(process.env.SLUICE_SEED ?? Math.floor(Math.random() * 2 ** 31));
    const random = randomFrom(seed);
    const clock = fakeClock();
    const client = onFakeTime(redis, clock, idempotencyOnFakeClock);
    await redis.script("LOAD", idempotencyOnFakeClock.text);
    const entries = new Map<string, steps.Entry<string>>();
    const counts: Record<string, number> = {};
    const ttlMs = 3_600_000;
    for (let done = 0; done < 20_000; ) {
      // Steps at one instant are pipelined.
      clock.advance(random.whole(1, 20) === 1 ? -random.whole(0, 300) : random.pick([0, 1, 9, 50, 101]));
      const now = clock.now();
      const batch = Array.from({ length: 50 }, () => {
        const key = `k${random.whole(0, 7)}`;
        const owner = `o${random.whole(0, 3)}`;
        const leaseMs = random.pick([1, 10, 100]);
        const operation = random.pick(["begin", "begin", "begin", "read", "renew", "complete", "release"] as const);
        const fingerprint = `f${random.whole(0, 1)}`;
        const text = encodeResponse({ ...response, status: random.whole(200, 599) });
        const args: string[] = {
          begin: [owner, fingerprint, `${leaseMs}`, `${ttlMs}`],
          read: [fingerprint],
          renew: [owner, `${leaseMs}`],
          complete: [owner, `${ttlMs}`, text],
          release: [owner],
        }[operation];
        const entry = entries.get(key);
        const step: steps.Step<unknown, string> = {
          begin: () => steps.begin(entry, { owner, fingerprint, leaseMs, ttlMs }, now),
          read: () => readStep(entry, fingerprint),
          renew: () => steps.renew(entry, owner, leaseMs, now),
          complete: () => steps.complete(entry, owner, text, ttlMs),
          release: () => steps.release(entry, owner),
        }[operation]();
        if (step.write === null) entries.delete(key);
        else if (step.write) entries.set(key, step.write.entry);
        const expected = replyOf(step.result);
        counts[expected.split(/[ \n]/)[1] as string] = (counts[expected.split(/[ \n]/)[1] as string] ?? 0) + 1;
        return { key, args: [operation, ...args], expected };
      });
      const replies = await Promise.all(batch.map(({ key, args }) => client.evalsha(sha, 1, key, ...args)));
      expect(replies, `seed ${seed} step ${done}`).toEqual(batch.map(({ expected }) => expected));
      done += batch.length;
      // Responses would soon cover all keys.
      if (random.whole(1, 4) === 1) {
        entries.clear();
        await redis.flushdb();
        continue;
      }
      for (const name of await redis.keys("*")) {
        const raw = (await redis.get(name)) as string;
        const entry = entries.get(name.replace(/^.*:/, "")) as steps.Entry<string>;
        expect(raw, `seed ${seed} step ${done}`).toBe(formatEntry(entry));
        expect(parseEntry(raw)).toEqual(entry);
      }
    }
    for (const kind of ["started", "in-progress", "completed", "none", "response", "held", "lost"]) {
      expect(counts[kind], kind).toBeGreaterThan(200);
    }
  });
});

/** The reply of the script for a result of the pure steps. */
function replyOf(result: unknown): string {
  if (typeof result === "boolean") return result ? "i1 held" : "i1 lost";
  if (typeof result === "string") return result;
  const begun = result as BeginResult;
  if (begun.state === "started") return `i1 started ${begun.attempt}`;
  const same = begun.same ? 1 : 0;
  return begun.state === "in-progress" ? `i1 in-progress ${same} ${begun.leaseMs}` : `i1 completed ${same}`;
}

function readStep(entry: steps.Entry<string> | undefined, fingerprint: string): steps.Step<string, string> {
  const { result } = steps.read(entry, fingerprint);
  return { result: result === undefined ? "i1 none" : `i1 response\n${result}` };
}

describe("a Redis that fails", withRedis, () => {
  it("rejects with store-unavailable, without the text of the server", async () => {
    const failing = {
      status: "ready",
      evalsha: () => Promise.reject(new Error("LOADING secret")),
      eval: () => Promise.reject(),
    };
    for (const call of callsOf(redisIdempotencyStore(failing))) {
      const error = await call().catch((error: unknown) => error);
      expect(error).toBeInstanceOf(SluiceError);
      expect(error).toMatchObject({ code: "store-unavailable", cause: { message: "LOADING secret" } });
      expect((error as Error).message).not.toContain("secret");
    }
  });

  it("tries once more after READONLY: the client may have found the new master", async () => {
    const failures = [new Error("READONLY You can't write against a read only replica.")];
    const failing = (left: Error[]) => ({
      status: "ready",
      evalsha: () => (left.length > 0 ? Promise.reject(left.shift()) : Promise.resolve("i1 started 1")),
      eval: () => Promise.reject(new Error("not called")),
    });
    const client = failing([...failures]);
    expect(await redisIdempotencyStore(client).begin(claim)).toEqual({ state: "started", attempt: 1 });
    const twice = redisIdempotencyStore(failing([...failures, ...failures]));
    await expect(twice.begin(claim)).rejects.toMatchObject({ code: "store-unavailable" });
  });

  it("rejects at once if the client is not connected", async () => {
    const store = redisIdempotencyStore(createClient({ url: server.url }));
    await expect(store.begin(claim)).rejects.toThrow("call await client.connect() first");
  });

  it("rejects an unknown reply of another script", async () => {
    for (const reply of ["OK", 1, null, "i2 started 1", "i1 complete 1", []]) {
      const other = { status: "ready", evalsha: () => Promise.resolve(reply), eval: () => Promise.resolve(reply) };
      for (const call of callsOf(redisIdempotencyStore(other))) {
        await expect(call(), String(reply)).rejects.toMatchObject({ code: "store-unavailable" });
      }
    }
  });

  it("writes nothing while Redis is out of memory", async () => {
    const store = redisIdempotencyStore(redis);
    await store.begin(claim);
    await redis.config("SET", "maxmemory", "1");
    try {
      await expect(store.begin({ ...claim, key: "new" })).rejects.toMatchObject({ code: "store-unavailable" });
      await expect(store.complete(claim, "o1", response, 1000)).rejects.toMatchObject({ code: "store-unavailable" });
    } finally {
      await redis.config("SET", "maxmemory", "0");
    }
    expect(await store.complete(claim, "o1", response, 1000)).toBe(true);
  });
});

describe("options of redisIdempotencyStore", withRedis, () => {
  it.each([
    [{ hmacSecret: "" }, "hmacSecret"],
    [{ hmacSecret: 7 as never }, "hmacSecret"],
    [{ ttlMs: 5 } as never, "ttlMs"],
  ])("rejects %j", (options, option) => {
    expect(() => redisIdempotencyStore(redis, options)).toThrow(expect.objectContaining({ option }));
  });

  it("rejects what is not a client", () => {
    expect(() => redisIdempotencyStore({} as never)).toThrow(expect.objectContaining({ option: "client" }));
  });
});

describe("two processes on one Redis", withRedis, () => {
  it.each([
    ["ioredis", (port: number) => `const { Redis } = await import("ioredis"); const client = new Redis(${port});`],
    [
      "node-redis",
      (port: number) =>
        `const { createClient } = await import("redis"); const client = createClient({ url: "redis://127.0.0.1:${port}" }); await client.connect();`,
    ],
  ])("start each key once, by %s", async (_, connect) => {
    const starts = await startsPerKey(
      `const { redisIdempotencyStore } = await import("sluice/redis"); ${connect(server.port)} const store = redisIdempotencyStore(client);`,
    );
    expect(starts).toEqual(Array(KEYS).fill(1));
  });
});
