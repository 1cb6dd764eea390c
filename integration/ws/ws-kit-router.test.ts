/** Tests of `rateLimit` on ws-kit's router beyond those that ws-kit's own middleware passes too. */
import { performance } from "node:perf_hooks";
import { memoryRateLimiter as wsKitMemoryLimiter } from "@ws-kit/memory";
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
import { type Client, connectTo, type ServerMessage } from "./ws-kit-clients.ts";
import { decisionsOf, error, errorOf, onRedis, saidMessage, stores, textsOf } from "./ws-kit-set-up.ts";

describe("rateLimit on ws-kit's router", () => {
  const limited = (options: Parameters<typeof rateLimit>[0], more: Parameters<typeof routerWith>[1] = {}) =>
    routerWith(rateLimit({ cost: costOf, ...options }), more);

  it("accepts a limiter of ws-kit", async () => {
    const client = connectTo(limited({ limiter: wsKitMemoryLimiter({ capacity: 1, tokensPerSecond: 1 }) }));
    expect(await client.request()).toEqual(saidMessage("SAY"));
    const details = { cost: 1, capacity: 1, remaining: 0 };
    expect(errorOf(await client.request())).toEqual(
      error("RESOURCE_EXHAUSTED", { details, retryAfterMs: 1000, retryable: true }),
    );
    expect(errorOf(await client.request("HUGE")).code).toBe("FAILED_PRECONDITION");
  });

  it("sends ERROR on a router without plugins", async () => {
    const limiter = memoryRateLimiter({ capacity: 1, tokensPerSecond: "1/h" });
    const router = createRouter()
      .use(rateLimit({ limiter }))
      .on(message("SAY"), () => {});
    const client = connectTo(router);
    client.sendMessages("SAY", "a", "b");
    expect(await client.next()).toMatchObject({ type: "ERROR", payload: { code: "RESOURCE_EXHAUSTED" } });
  });

  const fails = () => {
    throw new Error("on purpose");
  };
  it.each<[string, () => unknown]>([
    ["throws", fails],
    ["rejects", async () => fails()],
    ["never ends", () => new Promise(() => {})],
  ])("calls onLimitExceeded once for each denial, also if it %s", async (_, hook) => {
    const exceeded: LimitExceeded[] = [];
    const onLimitExceeded = (info: LimitExceeded) => {
      exceeded.push(info);
      return hook();
    };
    const limiter = memoryRateLimiter({ capacity: 2, tokensPerSecond: 2 }, { clock: fakeClock() });
    const codes: unknown[] = [];
    const router = limited({ limiter, onLimitExceeded }, { onError: ({ code }) => codes.push(code) });
    const client = connectTo(router, { userId: "u1", tenantId: "t1" });
    const denials = ["RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "INVALID_ARGUMENT"];
    const messages: ServerMessage[] = [];
    for (const type of ["SAY", "SAY", "SAY", "SAY", "HUGE", "FRACTION"]) messages.push(await client.request(type));
    expect(textsOf(messages)).toEqual(["SAY", "SAY", ...denials]);
    const { id } = exceeded[0] as LimitExceeded;
    const about = { type: "rate", id, action: "send" };
    expect(id).not.toBe("");
    expect(exceeded).toEqual([
      { ...about, observed: 1, limit: 2, retryAfterMs: 500, key: "t1:user:u1:SAY" },
      { ...about, observed: 1, limit: 2, retryAfterMs: 500, key: "t1:user:u1:SAY" },
      { ...about, observed: 50, limit: 2, retryAfterMs: null, key: "t1:user:u1:HUGE" },
    ]);
    // The router's onError is called with each denial, and not with the listener's error.
    expect(codes).toEqual(denials);
  });

  describe.each(stores)("the default key %s", (_, make) => {
    const spent = async (client: Client, type = "SAY") => {
      let passed = 0;
      while ((await client.request(type)).type === "SAID") passed++;
      return passed;
    };

    it("is per user across connections, and separate for other tenants", async () => {
      const router = limited({ limiter: make() });
      const one = { userId: "u", tenantId: "a" };
      expect(await spent(connectTo(router, one))).toBe(3);
      expect(await spent(connectTo(router, one))).toBe(0);
      expect(await spent(connectTo(router, one), "SHOUT")).toBe(3);
      expect(await spent(connectTo(router, { ...one, tenantId: "b" }))).toBe(3);
      expect(await spent(connectTo(router, { userId: "u" }))).toBe(3);
      // Parts that would give the same key without escaping.
      expect(await spent(connectTo(router, { userId: "c", tenantId: "x:user:b" }))).toBe(3);
      expect(await spent(connectTo(router, { userId: "b:user:c", tenantId: "x" }))).toBe(3);
    });

    it("is per connection for anonymous clients", async () => {
      const router = limited({ limiter: make() });
      for (const data of [{}, {}, { userId: "" }, { userId: null }, { userId: {} }]) {
        expect(await spent(connectTo(router, data))).toBe(3);
      }
    });

    it("is per user from the login on", async () => {
      const router = limited({ limiter: make(), key: keyPerUser });
      const client = connectTo(router);
      expect(await spent(client)).toBe(3);
      router.use(async ({ assignData }, next) => {
        assignData({ userId: "late" });
        await next();
      });
      expect(await client.request("FREE")).toEqual(saidMessage("FREE"));
      expect(await spent(client)).toBe(3);
    });
  });

  it("sends UNAVAILABLE while Redis is down and the limiter fails closed, and recovers", async () => {
    const own = await startRedis();
    onTestFinished(own.stop);
    const connection = new Redis(own.url);
    connection.on("error", () => {});
    onTestFinished(() => connection.disconnect());
    const policy = { capacity: 3, tokensPerSecond: 2 };
    const limiter = redisRateLimiter(connection, policy, { onStoreError: "closed" });
    const decisions = decisionsOf(limiter);
    const exceeded: LimitExceeded[] = [];
    const client = connectTo(limited({ limiter, onLimitExceeded: (info) => exceeded.push(info) }));
    expect(await client.request()).toEqual(saidMessage("SAY"));
    await own.kill();
    const denial = errorOf(await client.request());
    const { retryAfterMs, unavailable } = decisions[1] as Decision & { unavailable?: true };
    expect([typeof retryAfterMs, unavailable]).toEqual(["number", true]);
    const details = { cost: 1, capacity: 3, remaining: 0 };
    expect(denial).toEqual(error("UNAVAILABLE", { details, retryAfterMs, retryable: true }));
    expect(exceeded).toMatchObject([{ type: "rate", retryAfterMs }]);
    // A cost above the capacity is denied without Redis.
    expect(errorOf(await client.request("HUGE")).code).toBe("FAILED_PRECONDITION");
    await own.restart();
    await until("an allowed message", async () => {
      const { type, payload } = await client.request();
      return type === "SAID" ? undefined : payload.code;
    });
  });

  it("sends UNAVAILABLE if the limiter throws, and passes the error to the router's onError", async () => {
    const failure = new Error("on purpose");
    const errors: unknown[] = [];
    const limiter = { consume: () => Promise.reject(failure), getPolicy: () => ({ capacity: 1 }) };
    const exceeded: LimitExceeded[] = [];
    const onLimitExceeded = (info: LimitExceeded) => exceeded.push(info);
    const client = connectTo(limited({ limiter, onLimitExceeded }, { onError: (error) => errors.push(error) }));
    client.sendMessages("SAY", "a", "b");
    expect((await client.all()).map(({ payload }) => [payload.code, payload.retryable])).toEqual(
      Array(2).fill(["UNAVAILABLE", true]),
    );
    expect(errors.filter((error) => error === failure)).toHaveLength(2);
    expect(exceeded).toMatchObject(Array(2).fill({ type: "rate", observed: 1, limit: 0, action: "send" }));
  });

  describe("the order of messages", () => {
    const texts = Array.from({ length: 100 }, (_, i) => `${i}`);

    it("is kept in a queue of at most maxQueued messages", async () => {
      const exceeded: LimitExceeded[] = [];
      const limiter = onRedis({ capacity: 100, tokensPerSecond: 2 });
      const client = connectTo(limited({ limiter, maxQueued: 2, onLimitExceeded: (info) => exceeded.push(info) }));
      // Messages that are sent one after the other never wait.
      for (const text of ["a", "b", "c", "d", "e"])
        expect(textsOf([await client.request("SAY", text)])).toEqual([text]);
      client.sendMessages("SAY", "1", "2", "3");
      expect(textsOf(await client.receive(3)).sort()).toEqual(["1", "2", "RESOURCE_EXHAUSTED"]);
      expect(exceeded).toMatchObject([{ type: "inflight", observed: 3, limit: 2 }]);
    });

    it("is kept for 100 messages at once over Redis", async () => {
      const handled: string[] = [];
      const limiter = onRedis({ capacity: 60, tokensPerSecond: "1/h" });
      const router = limited({ limiter }, { onHandled: (text) => handled.push(text) });
      const client = connectTo(router, { userId: "u" });
      client.sendMessages("SAY", ...texts);
      const passed = texts.slice(0, 60);
      expect(textsOf(await client.receive(100))).toEqual([...passed, ...new Array(40).fill("RESOURCE_EXHAUSTED")]);
      expect(handled).toEqual(passed);
    });

    /** A limiter that decides when the test calls `allow` or `fail`. */
    const byHand = () => {
      const calls: { key: string; allow: () => void; fail: (error: Error) => void }[] = [];
      const consume = (key: string) =>
        new Promise<{ allowed: true }>((resolve, reject) => {
          calls.push({ key, allow: () => resolve({ allowed: true }), fail: reject });
        });
      const all = (count: number) =>
        until("the calls", async () => (calls.length === count ? undefined : `${calls.length} of ${count}`));
      return { calls, all, limiter: { consume, getPolicy: () => ({ capacity: 1 }) } };
    };

    it("is kept if later messages are decided first", async () => {
      const { calls, all, limiter } = byHand();
      const client = connectTo(limited({ limiter }));
      const other = connectTo(limited({ limiter }));
      client.sendMessages("SAY", "a", "b", "c");
      await all(3);
      calls[2]?.allow();
      calls[1]?.allow();
      // Connections do not wait for one another.
      other.sendMessages("SAY", "x");
      await all(4);
      calls[3]?.allow();
      expect(await other.next()).toEqual(saidMessage("x"));
      calls[0]?.allow();
      expect(textsOf(await client.receive(3))).toEqual(["a", "b", "c"]);
    });

    it("is kept for free messages", async () => {
      const { calls, all, limiter } = byHand();
      const client = connectTo(limited({ limiter }));
      client.sendMessages("SAY", "a");
      client.sendMessages("FREE", "b");
      client.sendMessages("SAY", "c");
      await all(2);
      calls[1]?.allow();
      calls[0]?.allow();
      expect(textsOf(await client.receive(3))).toEqual(["a", "b", "c"]);
      expect(await client.request("FREE", "d")).toEqual(saidMessage("d"));
    });

    it("is kept if a decision fails before an earlier one settles", async () => {
      const { calls, all, limiter } = byHand();
      const errors: unknown[] = [];
      const client = connectTo(limited({ limiter }, { onError: (error) => errors.push(error) }));
      client.sendMessages("SAY", "a", "b", "c");
      await all(3);
      const failure = new Error("on purpose");
      calls[1]?.fail(failure);
      calls[2]?.allow();
      // A promise without a handler would be reported as an unhandled rejection by now.
      await new Promise(setImmediate);
      calls[0]?.allow();
      expect(textsOf(await client.receive(3)).sort()).toEqual(["UNAVAILABLE", "a", "c"]);
      expect(errors.filter((error) => error === failure)).toHaveLength(1);
    });

    it.each(stores)("is kept with the delay of a leaky bucket, %s", async (_, make) => {
      const limiter = make(leakyBucket("20/s", { burst: 4 }));
      const decisions = decisionsOf(limiter);
      const times: number[] = [];
      const router = limited({ limiter }, { onHandled: () => times.push(performance.now()) });
      const client = connectTo(router);
      const start = performance.now();
      client.sendMessages("SAY", "a", "b", "c", "d");
      // Another type has its own bucket, and waits only for its turn.
      client.sendMessages("SHOUT", "e");
      client.sendMessages("FREE", "f");
      expect(textsOf(await client.receive(6))).toEqual(["a", "b", "c", "d", "e", "f"]);
      const delays = decisions.map(({ delayMs = 0 }) => delayMs);
      expect(delays.length).toBe(5);
      expect(Math.max(...delays)).toBeGreaterThan(100);
      for (const [i, delayMs] of delays.entries()) {
        expect((times[i] as number) - start).toBeGreaterThan(delayMs - 2);
      }
    });
  });
});
