/** The tests that the `rateLimit` of sluice and that of ws-kit both pass, with limiters of sluice. */
import { setTimeout as sleep } from "node:timers/promises";
import { rateLimit as wsKitRateLimit } from "@ws-kit/rate-limit";
import { combine, type Decision, memoryRateLimiter } from "sluice";
import { fakeClock } from "sluice/testing";
import { keyPerUser } from "sluice/ws";
import { rateLimit } from "sluice/ws-kit";
import { describe, expect, it } from "vitest";
import { costOf, routerWith } from "./apps/ws-kit-router.js";
import { connectTo } from "./ws-kit-clients.ts";
import {
  decisionsOf,
  error,
  errorOf,
  FAST,
  type Limit,
  saidMessage,
  stores,
  textsOf,
  waitIn,
} from "./ws-kit-set-up.ts";

describe.each<[string, Limit, object, object]>([
  ["rateLimit of ws-kit", wsKitRateLimit, {}, {}],
  // ws-kit forwards `retryable` only if the middleware sets it.
  ["rateLimit of sluice", rateLimit, { retryable: true }, { retryable: false }],
])("%s", (_, middleware, retryable, final) => {
  describe.each(stores)("with a limiter %s", (_, make) => {
    const open = (limiter = make()) => {
      const decisions = decisionsOf(limiter);
      const handled: string[] = [];
      const options = { limiter, key: keyPerUser, cost: costOf };
      const router = routerWith(middleware(options), { onHandled: (text) => handled.push(text) });
      return { client: connectTo(router), decisions, handled };
    };

    it("handles allowed messages, and sends the wait for denied ones", async () => {
      const { client, decisions, handled } = open();
      for (const text of ["a", "b", "c"]) expect(await client.request("SAY", text)).toEqual(saidMessage(text));
      const denial = errorOf(await client.request("SAY", "d"));
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

    it("replies to an RPC with its correlation id", async () => {
      const { client, decisions } = open();
      const call = (correlationId: string) => {
        client.sendRaw(JSON.stringify({ type: "SEARCH", meta: { correlationId }, payload: { query: "abc" } }));
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

    it("denies a cost above the capacity for good, and charges nothing", async () => {
      const { client, decisions } = open();
      const denial = errorOf(await client.request("HUGE"));
      expect(denial).toEqual(error("FAILED_PRECONDITION", { details: { cost: 50, capacity: 3 }, ...final }));
      expect(decisions[0]).toMatchObject({ allowed: false, retryAfterMs: null });
      expect(await client.request()).toEqual(saidMessage("SAY"));
      expect(decisions[1]).toMatchObject({ allowed: true, remaining: 2 });
    });

    it("does not charge free messages", async () => {
      const { client, decisions } = open();
      for (let i = 0; i < 10; i++) expect(await client.request("FREE")).toEqual(saidMessage("FREE"));
      expect(decisions).toEqual([]);
    });

    it.each(["FRACTION", "NEGATIVE", "NOT_A_NUMBER"])("rejects an invalid cost: %s", async (type) => {
      const { client, decisions, handled } = open();
      expect(errorOf(await client.request(type))).toEqual(error("INVALID_ARGUMENT", final));
      expect([decisions, handled]).toEqual([[], []]);
    });

    it("allows a message after the wait that it sent", async () => {
      const { client, decisions } = open(make(FAST));
      client.sendMessages("SAY", "a", "b", "c", "d");
      const wait = waitIn(await client.receive(4));
      // A denial that has waited has the remaining wait.
      expect(wait).toBeGreaterThan(0);
      expect(wait).toBeLessThanOrEqual(decisions[3]?.retryAfterMs ?? 0);
      // A timer may fire up to one millisecond early.
      await sleep(wait + 1);
      expect(await client.request("SAY", "e")).toEqual(saidMessage("e"));
    });
  });

  it("sends the wait to the millisecond", async () => {
    const clock = fakeClock();
    const limiter = memoryRateLimiter({ capacity: 3, tokensPerSecond: 2 }, { clock });
    const client = connectTo(routerWith(middleware({ limiter })));
    for (let i = 0; i < 3; i++) await client.request();
    for (const [advanced, wait] of [
      [0, 500],
      [123, 377],
      [376, 1],
    ] as const) {
      clock.advance(advanced);
      expect((await client.request()).payload.retryAfterMs).toBe(wait);
    }
    clock.advance(1);
    expect(await client.request()).toEqual(saidMessage("SAY"));
  });

  it("accepts a combination, and sends the wait of the limiting part", async () => {
    const clock = fakeClock();
    const policies = [
      { capacity: 5, tokensPerSecond: "1/h", name: "hour" },
      { capacity: 2, tokensPerSecond: 1, name: "second" },
    ] as const;
    const limiter = combine(policies.map((policy) => memoryRateLimiter(policy, { clock })));
    const client = connectTo(routerWith(middleware({ limiter })));
    const waits: unknown[] = [];
    for (let i = 0; i < 8; i++) {
      const { payload } = await client.request();
      waits.push(payload.retryAfterMs);
      if (payload.retryAfterMs) clock.advance(payload.retryAfterMs);
    }
    expect(waits).toEqual([undefined, undefined, 1000, undefined, 1000, undefined, 1000, undefined]);
    expect((await client.request()).payload.retryAfterMs).toBeGreaterThan(3_000_000);
  });

  it("charges invalid messages before withZod, and not after it", async () => {
    for (const [afterZod, denied, invalid] of [
      [false, 17, 3],
      [true, 0, 20],
    ] as const) {
      const limiter = memoryRateLimiter({ capacity: 3, tokensPerSecond: "1/h" });
      const decisions = decisionsOf(limiter);
      const codes: string[] = [];
      const limit = middleware({ limiter, cost: costOf });
      const client = connectTo(routerWith(limit, { afterZod, onError: ({ code }) => codes.push(code) }));
      for (let i = 0; i < 20; i++) client.sendRaw(JSON.stringify({ type: "SAY", meta: {}, payload: { text: i } }));
      // ws-kit sends nothing for invalid messages.
      expect(textsOf(await client.receive(denied))).toEqual(new Array(denied).fill("RESOURCE_EXHAUSTED"));
      expect(await client.request("FREE")).toEqual(saidMessage("FREE"));
      expect(decisions).toHaveLength(denied === 0 ? 0 : 20);
      expect(codes.filter((code) => code === "VALIDATION_ERROR")).toHaveLength(invalid);
      expect((await client.request()).type).toBe(afterZod ? "SAID" : "RPC_ERROR");
    }
  });
});
