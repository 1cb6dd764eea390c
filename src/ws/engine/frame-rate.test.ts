/** The rate stage of a frame: the connection's bucket, limits, heartbeats and control packets. */
import { combine, createLimiter, memoryRateLimiter, memoryStore } from "sluice";
import { type GuardOptions, type Ingress, jsonType, perUserKey } from "sluice/ws";
import { describe, expect, it, vi } from "vitest";
import { clock, type Data, few, message, perHour, setUp } from "../../../test/ws/set-up.ts";

describe("frame rate", () => {
  it("is charged to the connection's bucket first, and stays charged if the store denies", async () => {
    const limiter = few(2);
    const { receive, handled, exceeded } = setUp({ connection: perHour(4), limits: { limiter, key: () => "all" } });
    receive("1", "2", "3", "4", "5");
    expect(handled).toEqual(["1", "2"]);
    expect(exceeded.map(({ key }) => key)).toEqual(["all", "all", "connection:c1"]);
    // The fifth frame was not charged to the limiter.
    expect((await limiter.peek("all")).remaining).toBe(0);
  });

  it("is charged to user and type together, all or none", async () => {
    const store = memoryStore({ clock });
    const user = createLimiter({ store, policy: { ...perHour(3), name: "user" } });
    const type = createLimiter({ store, policy: { ...perHour(2), name: "type" } });
    const { receive, handled, exceeded } = setUp(
      {
        typeOf: jsonType(),
        types: ["say", "ask"],
        limits: [{ limiter: user, key: perUserKey }, { limiter: type }],
      },
      { userId: "ann" },
    );
    receive(message("say"), message("say"), message("say"), message("ask"), message("ask"));
    expect(handled.map(String)).toEqual([message("say"), message("say"), message("ask")]);
    expect(exceeded).toMatchObject([
      { key: "public:user:ann:say", limit: 2, observed: 1, retryAfterMs: 3_600_000 },
      { key: "public:user:ann", limit: 3, observed: 1, retryAfterMs: 3_600_000 },
    ]);
    expect((await user.peek("public:user:ann")).remaining).toBe(0);
    expect((await type.peek("public:user:ann:ask")).remaining).toBe(1);
  });

  it("is reported with the key of the limiting part, also inside a combination", () => {
    const store = memoryStore({ clock });
    const limiterOf = (name: string, capacity: number) =>
      createLimiter({ store, policy: { ...perHour(capacity), name } });
    const both = combine([limiterOf("a", 9), limiterOf("b", 9)]);
    const { receive, exceeded } = setUp({
      limits: [
        { limiter: both, key: () => "first" },
        { limiter: limiterOf("c", 1), key: () => "second" },
      ],
    });
    receive("1", "2");
    expect(exceeded).toMatchObject([{ key: "second", limit: 1 }]);
  });

  it("can depend on type and plan, and is not limited where the limiter is undefined", () => {
    const byType = new Map([["ask", few(1)]]);
    const plans = { free: few(2), paid: few(3) };
    const limits = [
      { limiter: ({ type }: Ingress) => byType.get(type), key: () => "type" },
      { limiter: ({ data }: Ingress<Data>) => (data?.plan === "paid" ? plans.paid : plans.free), key: () => "plan" },
    ];
    const frames = [message("say"), message("say"), message("say"), message("say")];
    const free = setUp({ typeOf: jsonType(), types: ["say", "ask"], limits }, { plan: "free" });
    free.receive(...frames);
    expect(free.handled).toHaveLength(2);
    const paid = setUp({ typeOf: jsonType(), types: ["say", "ask"], limits }, { plan: "paid" });
    paid.receive(message("ask"), message("ask"), ...frames);
    expect(paid.handled).toEqual([message("ask"), message("say"), message("say")]);
  });

  it("is not charged for a cost of 0", () => {
    const limiter = few(1);
    const consume = vi.spyOn(limiter, "consumeSync");
    const { receive, handled } = setUp({ limits: { limiter, cost: () => 0 } });
    receive("1", "2", "3");
    expect(handled).toHaveLength(3);
    expect(consume).not.toHaveBeenCalled();
  });

  it("is denied with FAILED_PRECONDITION, without a strike or a close, if the cost never fits", () => {
    const { receive, notices, exceeded, closes } = setUp({
      limits: { limiter: few(3), cost: () => 4 },
      onExceeded: "close",
      closeAfter: 1,
    });
    receive("1", "2");
    expect(exceeded).toMatchObject([
      { type: "rate", observed: 4, limit: 3, retryAfterMs: null, action: "send" },
      { retryAfterMs: null },
    ]);
    expect(notices()).toEqual([
      {
        code: "FAILED_PRECONDITION",
        message: "This costs more than the limit.",
        retryable: false,
        details: { type: "rate", observed: 4, limit: 3 },
      },
    ]);
    expect(closes).toEqual([]);
  });

  it.each([Number.NaN, -1, 0.5, Infinity, "2", undefined, null, 2 ** 31])(
    "is denied with INVALID_ARGUMENT, and not charged, for a cost of %s",
    async (cost) => {
      const limiter = few(3);
      const { receive, handled, notices, errors, exceeded } = setUp({
        limits: { limiter, key: () => "all", cost: () => cost as never },
      });
      receive("1");
      expect(handled).toEqual([]);
      expect(exceeded).toEqual([]);
      expect(notices()).toMatchObject([{ code: "INVALID_ARGUMENT", retryable: false }]);
      expect(errors).toMatchObject([{ code: "invalid-cost" }]);
      expect((await limiter.inspect("all")).found).toBe(false);
    },
  );

  it.each<[string, GuardOptions<Data>["limits"]]>([
    ["an empty key", { limiter: few(1), key: () => "" }],
    ["an undefined key", { limiter: few(1), key: () => undefined as never }],
    [
      "a key function that throws",
      {
        limiter: few(1),
        key: () => {
          throw new TypeError("of the application");
        },
      },
    ],
    ["an invalid limiter", { limiter: () => ({}) as never }],
    ["a promise of a limiter", { limiter: (async () => Promise.reject(new Error("late"))) as never }],
    ["a promise of a key", { limiter: few(1), key: (async () => Promise.reject(new Error("late"))) as never }],
    ["a promise of a cost", { limiter: few(1), cost: (async () => Promise.reject(new Error("late"))) as never }],
  ])("fails closed for %s", (_, limits) => {
    const { receive, handled, errors, notices } = setUp({ limits: limits as never });
    receive("1");
    expect(handled).toEqual([]);
    expect(errors).toHaveLength(1);
    expect(notices()).toMatchObject([{ code: "INVALID_ARGUMENT" }]);
  });

  it("is reported with the exact wait, to the millisecond", () => {
    const limiter = memoryRateLimiter({ capacity: 1, tokensPerSecond: 3 }, { clock });
    const { receive, handled, notices } = setUp({ limits: { limiter } });
    receive("1");
    clock.advance(100);
    receive("2");
    const [{ retryAfterMs }] = notices();
    expect(retryAfterMs).toBe(234);
    clock.advance(retryAfterMs - 1);
    receive("3");
    clock.advance(1);
    receive("4");
    expect(handled).toEqual(["1", "4"]);
  });
});

describe("heartbeats", () => {
  it("have a separate bucket, and are handled", () => {
    const limiter = few(1);
    const { receive, handled, exceeded, connection } = setUp({
      typeOf: jsonType(),
      types: ["say"],
      heartbeats: ["ping"],
      heartbeat: perHour(3),
      connection: perHour(1),
      limits: { limiter },
    });
    receive(message("ping"), message("ping"), message("say"));
    expect(handled).toHaveLength(3);
    // Pings share the bucket.
    expect(connection.ping()).toBe(true);
    expect(connection.ping()).toBe(false);
    receive(message("ping"));
    expect(handled).toHaveLength(3);
    expect(exceeded).toMatchObject([{ key: "heartbeat:c1", limit: 3 }, { key: "heartbeat:c1" }]);
  });

  it("are limited to 2 per second with a burst of 10 by default", () => {
    const { connection } = setUp();
    const allowedPings = () => Array.from({ length: 20 }, () => connection.ping()).filter(Boolean).length;
    expect(allowedPings()).toBe(10);
    clock.advance(1000);
    expect(allowedPings()).toBe(2);
  });
});

describe("a control packet", () => {
  it("is charged as a frame of the connection", () => {
    const { connection, exceeded, closes } = setUp({ connection: perHour(2) });
    expect([connection.control(), connection.control(), connection.control()]).toEqual([true, true, false]);
    // A packet that can't be dropped closes the connection, whatever `onExceeded` is.
    expect(connection.control(true)).toBe(false);
    expect(exceeded).toMatchObject([
      { key: "connection:c1", action: "send" },
      { key: "connection:c1", action: "close" },
    ]);
    expect(closes.map(([code]) => code)).toEqual([1013]);
    expect(setUp({ connection: false }).connection.control()).toBe(true);
  });
});
