import { setTimeout as sleep } from "node:timers/promises";
import { rateLimit as theirs } from "@ws-kit/rate-limit";
import { combine, type Decision, memoryRateLimiter } from "sluice";
import { fakeClock } from "sluice/testing";
import { keyPerUser } from "sluice/ws";
import { rateLimit } from "sluice/ws-kit";
import { describe, expect, it } from "vitest";
import { costOf, routerWith } from "./apps/ws-kit-router.js";
import { connectTo } from "./ws-kit-clients.ts";
import { decisionsOf, error, errorOf, FAST, type Limit, said, textsOf, waitIn, where } from "./ws-kit-set-up.ts";

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
