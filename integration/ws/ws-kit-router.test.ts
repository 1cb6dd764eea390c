/** Our `rateLimit` on the router of ws-kit, beyond what it has in common with ws-kit's own. */
import { performance } from "node:perf_hooks";
import { memoryRateLimiter as theirMemory } from "@ws-kit/memory";
import { createRouter, message } from "@ws-kit/zod";
import { Redis } from "ioredis";
import { type Decision, leakyBucket, memoryRateLimiter } from "sluice";
import { redisRateLimiter } from "sluice/redis";
import { fakeClock } from "sluice/testing";
import { keyPerUser, type LimitExceeded } from "sluice/ws";
import { rateLimit } from "sluice/ws-kit";
import { describe, expect, it, onTestFinished } from "vitest";
import { startRedis } from "../../test/servers/redis-server.js";
import { until } from "../../test/servers/until.js";
import { costOf, routerWith } from "./apps/ws-kit-router.js";
import { type Client, connectTo, type Told } from "./ws-kit-clients.ts";
import { decisionsOf, error, errorOf, onRedis, said, textsOf, where } from "./ws-kit-set-up.ts";

describe("our rateLimit on ws-kit's router", () => {
  const limited = (options: Parameters<typeof rateLimit>[0], more: Parameters<typeof routerWith>[1] = {}) =>
    routerWith(rateLimit({ cost: costOf, ...options }), more);

  it("takes a limiter of ws-kit", async () => {
    const client = connectTo(limited({ limiter: theirMemory({ capacity: 1, tokensPerSecond: 1 }) }));
    expect(await client.ask()).toEqual(said("SAY"));
    const details = { cost: 1, capacity: 1, remaining: 0 };
    expect(errorOf(await client.ask())).toEqual(
      error("RESOURCE_EXHAUSTED", { details, retryAfterMs: 1000, retryable: true }),
    );
    expect(errorOf(await client.ask("HUGE")).code).toBe("FAILED_PRECONDITION");
  });

  it("tells a router without plugins by ERROR", async () => {
    const limiter = memoryRateLimiter({ capacity: 1, tokensPerSecond: "1/h" });
    const router = createRouter()
      .use(rateLimit({ limiter }))
      .on(message("SAY"), () => {});
    const client = connectTo(router);
    client.say("SAY", "a", "b");
    expect(await client.next()).toMatchObject({ type: "ERROR", payload: { code: "RESOURCE_EXHAUSTED" } });
  });

  const fails = () => {
    throw new Error("on purpose");
  };
  it.each<[string, () => unknown]>([
    ["throws", fails],
    ["rejects", async () => fails()],
    ["never ends", () => new Promise(() => {})],
  ])("calls onLimitExceeded once for each denial, which %s", async (_, hook) => {
    const infos: LimitExceeded[] = [];
    const onLimitExceeded = (info: LimitExceeded) => {
      infos.push(info);
      return hook();
    };
    const limiter = memoryRateLimiter({ capacity: 2, tokensPerSecond: 2 }, { clock: fakeClock() });
    const codes: unknown[] = [];
    const router = limited({ limiter, onLimitExceeded }, { onError: ({ code }) => codes.push(code) });
    const client = connectTo(router, { userId: "u1", tenantId: "t1" });
    const denials = ["RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "INVALID_ARGUMENT"];
    const told: Told[] = [];
    for (const type of ["SAY", "SAY", "SAY", "SAY", "HUGE", "HALF"]) told.push(await client.ask(type));
    expect(textsOf(told)).toEqual(["SAY", "SAY", ...denials]);
    const { id } = infos[0] as LimitExceeded;
    const about = { type: "rate", id, action: "send" };
    expect(id).not.toBe("");
    expect(infos).toEqual([
      { ...about, observed: 1, limit: 2, retryAfterMs: 500, key: "t1:user:u1:SAY" },
      { ...about, observed: 1, limit: 2, retryAfterMs: 500, key: "t1:user:u1:SAY" },
      { ...about, observed: 50, limit: 2, retryAfterMs: null, key: "t1:user:u1:HUGE" },
    ]);
    // The router's own listener hears of each answer, and of no fault of ours.
    expect(codes).toEqual(denials);
  });

  describe.each(where)("counts %s", (_, make) => {
    const spent = async (client: Client, type = "SAY") => {
      let passed = 0;
      while ((await client.ask(type)).type === "SAID") passed++;
      return passed;
    };

    it("users on all their connections, apart from those of other tenants", async () => {
      const router = limited({ limiter: make() });
      const one = { userId: "u", tenantId: "a" };
      expect(await spent(connectTo(router, one))).toBe(3);
      expect(await spent(connectTo(router, one))).toBe(0);
      expect(await spent(connectTo(router, one), "SHOUT")).toBe(3);
      expect(await spent(connectTo(router, { ...one, tenantId: "b" }))).toBe(3);
      expect(await spent(connectTo(router, { userId: "u" }))).toBe(3);
      // Parts that would run together.
      expect(await spent(connectTo(router, { userId: "c", tenantId: "x:user:b" }))).toBe(3);
      expect(await spent(connectTo(router, { userId: "b:user:c", tenantId: "x" }))).toBe(3);
    });

    it("who is not known by connection, and never together", async () => {
      const router = limited({ limiter: make() });
      for (const data of [{}, {}, { userId: "" }, { userId: null }, { userId: {} }]) {
        expect(await spent(connectTo(router, data))).toBe(3);
      }
    });

    it("a user from when they are known", async () => {
      const router = limited({ limiter: make(), key: keyPerUser });
      const client = connectTo(router);
      expect(await spent(client)).toBe(3);
      router.use(async ({ assignData }, next) => {
        assignData({ userId: "late" });
        await next();
      });
      expect(await client.ask("FREE")).toEqual(said("FREE"));
      expect(await spent(client)).toBe(3);
    });
  });

  it("answers UNAVAILABLE when there is no Redis and the limiter is closed, and passes when it is back", async () => {
    const own = await startRedis();
    onTestFinished(own.stop);
    const connection = new Redis(own.url);
    connection.on("error", () => {});
    onTestFinished(() => connection.disconnect());
    const policy = { capacity: 3, tokensPerSecond: 2 };
    const limiter = redisRateLimiter(connection, policy, { onStoreError: "closed" });
    const decisions = decisionsOf(limiter);
    const infos: LimitExceeded[] = [];
    const client = connectTo(limited({ limiter, onLimitExceeded: (info) => infos.push(info) }));
    expect(await client.ask()).toEqual(said("SAY"));
    await own.kill();
    const denial = errorOf(await client.ask());
    const { retryAfterMs, unavailable } = decisions[1] as Decision & { unavailable?: true };
    expect([typeof retryAfterMs, unavailable]).toEqual(["number", true]);
    const details = { cost: 1, capacity: 3, remaining: 0 };
    expect(denial).toEqual(error("UNAVAILABLE", { details, retryAfterMs, retryable: true }));
    expect(infos).toMatchObject([{ type: "rate", retryAfterMs }]);
    // What never fits is known without Redis.
    expect(errorOf(await client.ask("HUGE")).code).toBe("FAILED_PRECONDITION");
    await own.restart();
    await until("it did not pass", async () => {
      const { type, payload } = await client.ask();
      return type === "SAID" ? undefined : payload.code;
    });
  });

  it("tells the client of a limiter that throws, and the router's onError what it threw", async () => {
    const fault = new Error("on purpose");
    const errors: unknown[] = [];
    const limiter = { consume: () => Promise.reject(fault), getPolicy: () => ({ capacity: 1 }) };
    const infos: LimitExceeded[] = [];
    const onLimitExceeded = (info: LimitExceeded) => infos.push(info);
    const client = connectTo(limited({ limiter, onLimitExceeded }, { onError: (error) => errors.push(error) }));
    client.say("SAY", "a", "b");
    expect((await client.all()).map(({ payload }) => [payload.code, payload.retryable])).toEqual(
      Array(2).fill(["UNAVAILABLE", true]),
    );
    expect(errors.filter((error) => error === fault)).toHaveLength(2);
    expect(infos).toMatchObject(Array(2).fill({ type: "rate", observed: 1, limit: 0, action: "send" }));
  });

  describe("handles messages in the order in which they came", () => {
    const texts = Array.from({ length: 100 }, (_, i) => `${i}`);

    it("and keeps no more of them waiting than it was told", async () => {
      const infos: LimitExceeded[] = [];
      const limiter = onRedis({ capacity: 100, tokensPerSecond: 2 });
      const client = connectTo(limited({ limiter, maxQueued: 2, onLimitExceeded: (info) => infos.push(info) }));
      // One after the other there is always room.
      for (const text of ["a", "b", "c", "d", "e"]) expect(textsOf([await client.ask("SAY", text)])).toEqual([text]);
      client.say("SAY", "1", "2", "3");
      expect(textsOf(await client.hears(3)).sort()).toEqual(["1", "2", "RESOURCE_EXHAUSTED"]);
      expect(infos).toMatchObject([{ type: "inflight", observed: 3, limit: 2 }]);
    });

    it("100 at once over Redis", async () => {
      const handled: string[] = [];
      const limiter = onRedis({ capacity: 60, tokensPerSecond: "1/h" });
      const router = limited({ limiter }, { onHandled: (text) => handled.push(text) });
      const client = connectTo(router, { userId: "u" });
      client.say("SAY", ...texts);
      const passed = texts.slice(0, 60);
      expect(textsOf(await client.hears(100))).toEqual([...passed, ...new Array(40).fill("RESOURCE_EXHAUSTED")]);
      expect(handled).toEqual(passed);
    });

    /** Decides each when it is told to. */
    const byHand = () => {
      const asked: { key: string; allow: () => void; fail: (error: Error) => void }[] = [];
      const consume = (key: string) =>
        new Promise<{ allowed: true }>((resolve, reject) => {
          asked.push({ key, allow: () => resolve({ allowed: true }), fail: reject });
        });
      const all = (count: number) =>
        until("it was not asked", async () => (asked.length === count ? undefined : `${asked.length} of ${count}`));
      return { asked, all, limiter: { consume, getPolicy: () => ({ capacity: 1 }) } };
    };

    it("whichever is decided first", async () => {
      const { asked, all, limiter } = byHand();
      const client = connectTo(limited({ limiter }));
      const other = connectTo(limited({ limiter }));
      client.say("SAY", "a", "b", "c");
      await all(3);
      asked[2]?.allow();
      asked[1]?.allow();
      // Nobody waits for another connection.
      other.say("SAY", "x");
      await all(4);
      asked[3]?.allow();
      expect(await other.next()).toEqual(said("x"));
      asked[0]?.allow();
      expect(textsOf(await client.hears(3))).toEqual(["a", "b", "c"]);
    });

    it("what is free among what is not", async () => {
      const { asked, all, limiter } = byHand();
      const client = connectTo(limited({ limiter }));
      client.say("SAY", "a");
      client.say("FREE", "b");
      client.say("SAY", "c");
      await all(2);
      asked[1]?.allow();
      asked[0]?.allow();
      expect(textsOf(await client.hears(3))).toEqual(["a", "b", "c"]);
      expect(await client.ask("FREE", "d")).toEqual(said("d"));
    });

    it("when one of them fails before another is decided", async () => {
      const { asked, all, limiter } = byHand();
      const errors: unknown[] = [];
      const client = connectTo(limited({ limiter }, { onError: (error) => errors.push(error) }));
      client.say("SAY", "a", "b", "c");
      await all(3);
      const fault = new Error("on purpose");
      asked[1]?.fail(fault);
      asked[2]?.allow();
      // Whatever nobody listens to by now is an unhandled rejection, which ends a process.
      await new Promise(setImmediate);
      asked[0]?.allow();
      expect(textsOf(await client.hears(3)).sort()).toEqual(["UNAVAILABLE", "a", "c"]);
      expect(errors.filter((error) => error === fault)).toHaveLength(1);
    });

    it.each(where)("what a leaky bucket delays, %s", async (_, make) => {
      const limiter = make(leakyBucket("20/s", { burst: 4 }));
      const decisions = decisionsOf(limiter);
      const times: number[] = [];
      const router = limited({ limiter }, { onHandled: () => times.push(performance.now()) });
      const client = connectTo(router);
      const start = performance.now();
      client.say("SAY", "a", "b", "c", "d");
      // Another type has a bucket of its own, and need not wait but for its turn.
      client.say("SHOUT", "e");
      client.say("FREE", "f");
      expect(textsOf(await client.hears(6))).toEqual(["a", "b", "c", "d", "e", "f"]);
      const delays = decisions.map(({ delayMs = 0 }) => delayMs);
      expect(delays.length).toBe(5);
      expect(Math.max(...delays)).toBeGreaterThan(100);
      for (const [i, delayMs] of delays.entries()) {
        expect((times[i] as number) - start).toBeGreaterThan(delayMs - 2);
      }
    });
  });
});
