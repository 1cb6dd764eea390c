/** Limiters, the middleware and guards of sluice with the router of ws-kit: its own middleware and ours, Node and Bun. */
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import type { Middleware } from "@ws-kit/core";
import { memoryRateLimiter as theirMemory } from "@ws-kit/memory";
import { rateLimit as theirs } from "@ws-kit/rate-limit";
import { createRouter, message } from "@ws-kit/zod";
import { Redis } from "ioredis";
import { combine, type Decision, leakyBucket, memoryRateLimiter, type Policy, type RateLimiter } from "sluice";
import { redisRateLimiter } from "sluice/redis";
import { fakeClock } from "sluice/testing";
import { createGuard, jsonType, keyPerUser, type LimitExceeded, rateLimit } from "sluice/ws";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { type RedisServer, startRedis } from "../../test/servers/redis-server.js";
import { until } from "../../test/servers/until.js";
import { costOf, routerWith, TYPES } from "./apps/ws-kit-router.js";
import {
  type Client,
  closed,
  connect,
  connectTo,
  type OnBun,
  serveNode,
  startBun,
  type Told,
} from "./ws-kit-clients.ts";

let server: RedisServer;
let redis: Redis;
let bun: OnBun;
beforeAll(async () => {
  server = await startRedis();
  redis = new Redis(server.url);
  bun = await startBun(server.url);
});
afterAll(async () => {
  await bun?.stop();
  redis?.disconnect();
  await server?.stop();
});

/** Three at once: so slowly that no pause of the machine gives one more, or fast enough to wait for one. */
const SLOW: Policy = { capacity: 3, tokensPerSecond: "1/m" };
const FAST: Policy = { capacity: 3, tokensPerSecond: 1 };

let made = 0;
/** In buckets of its own. Without `throw` it would pass without any Redis. */
const onRedis = (policy: Policy = SLOW) =>
  redisRateLimiter(redis, { ...policy, prefix: `test ${++made}` }, { onStoreError: "throw", deadlineMs: "20s" });
const where: [string, (policy?: Policy) => RateLimiter][] = [
  ["in memory", (policy = SLOW) => memoryRateLimiter(policy)],
  ["in Redis", onRedis],
];

/** ws-kit's middleware or ours, told the same. */
type Limit = (options: { limiter: RateLimiter; key?: typeof keyPerUser; cost?: typeof costOf }) => Middleware;

/** What a limiter decides, from now on. */
function decisionsOf(limiter: RateLimiter): Decision[] {
  const decisions: Decision[] = [];
  const { consume, consumeSync } = limiter;
  // One of them may call the other.
  const tell = (decision: Decision) => {
    if (!decisions.includes(decision)) decisions.push(decision);
    return decision;
  };
  vi.spyOn(limiter, "consume").mockImplementation(async (...args) => tell(await consume.apply(limiter, args)));
  if (consumeSync) {
    const sync = limiter as Required<RateLimiter>;
    vi.spyOn(sync, "consumeSync").mockImplementation((...args) => tell(consumeSync.apply(limiter, args)));
  }
  return decisions;
}

/** What is told of an error, without its words. */
const errorOf = ({ type, payload: { message, ...payload } }: Told) => ({ type, ...payload, message: typeof message });
const said = (text: string) => ({ type: "SAID", meta: {}, payload: { text } });
const error = (code: string, more: object) => ({ type: "RPC_ERROR", code, message: "string", ...more });
const waitIn = (told: readonly Told[]): number => told.find(({ type }) => type === "RPC_ERROR")?.payload.retryAfterMs;
const textsOf = (told: readonly Told[]) =>
  told.map(({ type, payload }) => (type === "SAID" ? payload.text : payload.code));

describe.each<[string, Limit, object, object]>([
  ["ws-kit's own rateLimit", theirs, {}, {}],
  // ws-kit passes on what it is told, and tells nothing of that by itself.
  ["our rateLimit", rateLimit, { retryable: true }, { retryable: false }],
])("%s", (_, middleware, retryable, final) => {
  describe.each(where)("with our limiter %s", (_, make) => {
    const open = (limiter = make()) => {
      const decisions = decisionsOf(limiter);
      const handled: string[] = [];
      const options = { limiter, key: keyPerUser, cost: costOf };
      const router = routerWith(middleware(options), { onHandled: (text) => handled.push(text) });
      return { client: connectTo(router), decisions, handled };
    };

    it("handles what may pass, and tells of the rest when it may", async () => {
      const { client, decisions, handled } = open();
      for (const text of ["a", "b", "c"]) expect(await client.ask("SAY", text)).toEqual(said(text));
      const denial = errorOf(await client.ask("SAY", "d"));
      expect(decisions.map(({ allowed, remaining }) => [allowed, remaining])).toEqual([
        [true, 2],
        [true, 1],
        [true, 0],
        [false, 0],
      ]);
      const { retryAfterMs } = decisions[3] as Decision;
      expect(retryAfterMs).toBeGreaterThan(0);
      expect(retryAfterMs).toBeLessThanOrEqual(60_000);
      const details = { cost: 1, capacity: 3, remaining: 0 };
      expect(denial).toEqual(error("RESOURCE_EXHAUSTED", { details, retryAfterMs, ...retryable }));
      expect(handled).toEqual(["a", "b", "c"]);
    });

    it("tells a call what it is about", async () => {
      const { client, decisions } = open();
      const call = (correlationId: string) => {
        client.raw(JSON.stringify({ type: "SEARCH", meta: { correlationId }, payload: { query: "abc" } }));
        return client.next();
      };
      expect(await call("1")).toEqual({ type: "FOUND", meta: { correlationId: "1" }, payload: { hits: 3 } });
      await call("2");
      await call("3");
      const { meta, payload } = await call("4");
      expect([meta, payload.code, payload.retryAfterMs]).toEqual([
        { correlationId: "4" },
        "RESOURCE_EXHAUSTED",
        decisions[3]?.retryAfterMs,
      ]);
    });

    it("says that a cost above the capacity never fits, and takes nothing", async () => {
      const { client, decisions } = open();
      const denial = errorOf(await client.ask("HUGE"));
      expect(denial).toEqual(error("FAILED_PRECONDITION", { details: { cost: 50, capacity: 3 }, ...final }));
      expect(decisions[0]).toMatchObject({ allowed: false, retryAfterMs: null });
      expect(await client.ask()).toEqual(said("SAY"));
      expect(decisions[1]).toMatchObject({ allowed: true, remaining: 2 });
    });

    it("asks nobody about what is free", async () => {
      const { client, decisions } = open();
      for (let i = 0; i < 10; i++) expect(await client.ask("FREE")).toEqual(said("FREE"));
      expect(decisions).toEqual([]);
    });

    it.each(["HALF", "OWING", "UNTOLD"])("refuses a cost that is none: %s", async (type) => {
      const { client, decisions, handled } = open();
      expect(errorOf(await client.ask(type))).toEqual(error("INVALID_ARGUMENT", final));
      expect([decisions, handled]).toEqual([[], []]);
    });

    it("lets a message pass when the time has come that it told", async () => {
      const { client, decisions } = open(make(FAST));
      client.say("SAY", "a", "b", "c", "d");
      const wait = waitIn(await client.hears(4));
      // What has waited in line is told what is left.
      expect(wait).toBeGreaterThan(0);
      expect(wait).toBeLessThanOrEqual(decisions[3]?.retryAfterMs ?? 0);
      // A timer may be early by less than one millisecond.
      await sleep(wait + 1);
      expect(await client.ask("SAY", "e")).toEqual(said("e"));
    });
  });

  it("tells to the millisecond, wherever in the second it is asked", async () => {
    const clock = fakeClock();
    const limiter = memoryRateLimiter({ capacity: 3, tokensPerSecond: 2 }, { clock });
    const client = connectTo(routerWith(middleware({ limiter })));
    for (let i = 0; i < 3; i++) await client.ask();
    for (const [advanced, wait] of [
      [0, 500],
      [123, 377],
      [376, 1],
    ] as const) {
      clock.advance(advanced);
      expect((await client.ask()).payload.retryAfterMs).toBe(wait);
    }
    clock.advance(1);
    expect(await client.ask()).toEqual(said("SAY"));
  });

  it("takes a combination, and tells of the part that binds", async () => {
    const clock = fakeClock();
    const policies = [
      { capacity: 5, tokensPerSecond: "1/h", name: "hour" },
      { capacity: 2, tokensPerSecond: 1, name: "second" },
    ] as const;
    const limiter = combine(policies.map((policy) => memoryRateLimiter(policy, { clock })));
    const client = connectTo(routerWith(middleware({ limiter })));
    const waits: unknown[] = [];
    for (let i = 0; i < 8; i++) {
      const { payload } = await client.ask();
      waits.push(payload.retryAfterMs);
      if (payload.retryAfterMs) clock.advance(payload.retryAfterMs);
    }
    expect(waits).toEqual([undefined, undefined, 1000, undefined, 1000, undefined, 1000, undefined]);
    expect((await client.ask()).payload.retryAfterMs).toBeGreaterThan(3_000_000);
  });

  it("charges what is not valid if it comes before withZod, and not if it comes after", async () => {
    for (const [afterZod, denied, invalid] of [
      [false, 17, 3],
      [true, 0, 20],
    ] as const) {
      const limiter = memoryRateLimiter({ capacity: 3, tokensPerSecond: "1/h" });
      const decisions = decisionsOf(limiter);
      const codes: string[] = [];
      const limit = middleware({ limiter, cost: costOf });
      const client = connectTo(routerWith(limit, { afterZod, onError: ({ code }) => codes.push(code) }));
      for (let i = 0; i < 20; i++) client.raw(JSON.stringify({ type: "SAY", meta: {}, payload: { text: i } }));
      // Of what is not valid, ws-kit tells the client nothing.
      expect(textsOf(await client.hears(denied))).toEqual(new Array(denied).fill("RESOURCE_EXHAUSTED"));
      expect(await client.ask("FREE")).toEqual(said("FREE"));
      expect(decisions).toHaveLength(denied === 0 ? 0 : 20);
      expect(codes.filter((code) => code === "VALIDATION_ERROR")).toHaveLength(invalid);
      expect((await client.ask()).type).toBe(afterZod ? "SAID" : "RPC_ERROR");
    }
  });
});

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

describe.each<[string, Limit]>([
  ["our rateLimit", rateLimit],
  ["ws-kit's own", theirs],
])("%s over a socket of Node", (_, middleware) => {
  it.each(where)("tells a client of `ws` what the limiter decided %s", async (_, make) => {
    const limiter = make(FAST);
    const decisions = decisionsOf(limiter);
    const limit = middleware({ limiter, key: keyPerUser, cost: costOf });
    const { url, close } = await serveNode(routerWith(limit));
    onTestFinished(close);
    const client = await connect(`${url}?userId=u1`);
    const wait = waitIn(await client.askAll("a", "b", "c", "d"));
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, true, false]);
    expect(wait).toBe(decisions[3]?.retryAfterMs);
    expect(await (await connect(`${url}?userId=u2`)).ask()).toEqual(said("SAY"));
    await sleep(wait + 1);
    expect(await client.ask()).toEqual(said("SAY"));
    expect(client.socket.readyState).toBe(client.socket.OPEN);
  });
});

it("our rateLimit keeps the order of 100 messages over a socket and Redis", async () => {
  const texts = Array.from({ length: 100 }, (_, i) => `${i}`);
  const limiter = onRedis({ capacity: 100, tokensPerSecond: 1 });
  const { url, close } = await serveNode(routerWith(rateLimit({ limiter })));
  onTestFinished(close);
  const client = await connect(url);
  client.say("SAY", ...texts);
  expect(textsOf(await client.hears(100))).toEqual(texts);
});

describe("over a socket of Bun", () => {
  it.each(["memory", "redis", "theirsMemory", "theirsRedis"])("%s: a client is told what was decided", async (app) => {
    const client = await connect(`${bun.url(app)}?userId=u1`);
    const denial = (await client.askAll("a", "b", "c", "d")).find(({ type }) => type === "RPC_ERROR") as Told;
    for (let i = 0; i < 3; i++) expect(await bun.decision()).toMatchObject({ allowed: true });
    const { allowed, retryAfterMs } = await bun.decision();
    expect([allowed, typeof retryAfterMs]).toEqual([false, "number"]);
    const details = { cost: 1, capacity: 3, remaining: 0 };
    const retryable = app.startsWith("theirs") ? {} : { retryable: true };
    expect(errorOf(denial)).toEqual(error("RESOURCE_EXHAUSTED", { details, retryAfterMs, ...retryable }));
    expect(errorOf(await client.ask("HUGE")).code).toBe("FAILED_PRECONDITION");
    expect(await bun.decision()).toMatchObject({ allowed: false, retryAfterMs: null });
    expect(errorOf(await client.ask("HALF")).code).toBe("INVALID_ARGUMENT");
    expect(await client.ask("FREE")).toEqual(said("FREE"));
    await sleep((retryAfterMs as number) + 1);
    expect(await client.ask()).toEqual(said("SAY"));
    expect(await bun.decision()).toMatchObject({ allowed: true });
    for (const query of ["?userId=u2", "", ""]) {
      expect(await (await connect(bun.url(app) + query)).ask()).toEqual(said("SAY"));
      expect(await bun.decision()).toMatchObject({ allowed: true, remaining: 2 });
    }
  });

  it("guardBun admits connections for ws-kit's handlers, in place of its own fetch", async () => {
    const first = await connect(bun.url("admitted"));
    expect(await first.ask()).toEqual(said("SAY"));
    await expect(connect(bun.url("admitted"))).rejects.toThrow("429");
    first.socket.close();
    await until("it was not let in", async () => {
      const next = await connect(bun.url("admitted"));
      expect(await next.ask()).toEqual(said("SAY"));
      next.socket.close();
      return undefined;
    });
  });
});

describe("a guard around the router sees what its middleware never does", () => {
  const JUNK = ["{", "null", "[]", '{"type":7}', '{"type":"UNKNOWN"}', '{"type":"$ws:open"}'];
  const BEAT = '{"type":"__heartbeat"}';
  const guard = createGuard({
    connection: { capacity: 5, tokensPerSecond: "1/h" },
    heartbeat: { capacity: 2, tokensPerSecond: "1/h" },
    typeOf: jsonType(),
    types: TYPES,
    heartbeats: ["__heartbeat"],
    maxBytes: 1000,
    onExceeded: ({ type }) => (type === "payload" ? "close" : "send"),
  });
  const reached: unknown[] = [];
  const unlimited: Middleware = (_, next) => next();
  const router = routerWith(unlimited, { onError: (error) => reached.push(error) });
  let plain: Awaited<ReturnType<typeof serveNode>>;
  let guarded: Awaited<ReturnType<typeof serveNode>>;
  beforeAll(async () => {
    plain = await serveNode(router);
    guarded = await serveNode(router, (socket, peer) => {
      const connection = guard.attach({
        id: crypto.randomUUID(),
        send: (message) => socket.send(message),
        close: (code, reason) => socket.close(code, reason),
      });
      socket.on("message", (data) =>
        connection.receive(String(data), (frame) => router.websocket.message(peer, frame as string)),
      );
      socket.on("close", () => connection.end());
    });
  });
  afterAll(() => {
    plain?.close();
    guarded?.close();
  });

  describe.each([
    ["createGuard on Node", () => plain.url, () => guarded.url],
    ["guardBun on Bun", () => bun.url("unguarded"), () => bun.url("guarded")],
  ])("%s", (name, open, shut) => {
    const codesOf = (told: readonly Told[]) => told.map(({ type, payload }) => payload?.code ?? type);

    it("frames that can't be read", async () => {
      const stranger = await connect(open());
      stranger.raw(...JUNK, ...JUNK);
      expect(await stranger.all()).toEqual([]);
      reached.length = 0;
      const client = await connect(shut());
      client.raw(...JUNK, ...JUNK);
      expect(codesOf(await client.hears(2))).toEqual(["INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"]);
      if (name.endsWith("Node")) expect(reached).toEqual([]);
      // They have used up what the connection may send.
      client.say("SAY", "x");
      client.raw(BEAT);
      expect((await client.next()).type).toBe("__heartbeat_ack");
    });

    it("heartbeats, each of which is answered", async () => {
      const beats = new Array(20).fill(BEAT);
      const stranger = await connect(open());
      stranger.raw(...beats);
      expect(codesOf(await stranger.hears(20))).toEqual(new Array(20).fill("__heartbeat_ack"));
      const client = await connect(shut());
      client.raw(...beats);
      expect(codesOf(await client.all())).toEqual(["__heartbeat_ack", "__heartbeat_ack", "RESOURCE_EXHAUSTED"]);
      expect(await client.ask()).toEqual(said("SAY"));
    });

    it("frames that are too large, by their bytes", async () => {
      const large = JSON.stringify({ type: "SAY", meta: {}, payload: { text: "é".repeat(600) } });
      expect([large.length < 1000, Buffer.byteLength(large) > 1000]).toEqual([true, true]);
      const stranger = await connect(open());
      stranger.raw(large);
      expect((await stranger.next()).type).toBe("SAID");
      const client = await connect(shut());
      expect(await client.ask()).toEqual(said("SAY"));
      client.raw(large);
      expect(await closed(client)).toEqual([1009, '{"limit":"payload"}']);
    });

    it("and what it lets pass is handled as without it", async () => {
      const client = await connect(shut());
      client.say("SAY", "a", "b", "c");
      client.raw(JSON.stringify({ type: "SEARCH", meta: { correlationId: "1" }, payload: { query: "abc" } }));
      expect((await client.hears(4)).map(({ type }) => type)).toEqual(["SAID", "SAID", "SAID", "FOUND"]);
    });
  });
});
