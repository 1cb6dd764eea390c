/** The steps that a frame takes, one by one. */
import { combine, createLimiter, memoryRateLimiter, memoryStore } from "sluice";
import { type Frame, type GuardOptions, type Ingress, jsonType, perUserKey } from "sluice/ws";
import { describe, expect, it, vi } from "vitest";
import { clock, type Data, few, perHour, remote, say, setUp } from "../../../test/ws/set-up.ts";

describe("size", () => {
  it.each<[string, Frame, number]>([
    ["text", "12345678", 8],
    ["text beyond ASCII", "üüüü", 8],
    ["text with a lone surrogate", "a\ud800bcde", 8],
    ["bytes", new Uint8Array(8), 8],
    ["a view", new DataView(new ArrayBuffer(16), 8), 8],
    ["a buffer", new ArrayBuffer(8), 8],
  ])("is counted in bytes: %s", (_, frame, bytes) => {
    const fits = setUp({ maxBytes: bytes });
    fits.receive(frame);
    expect(fits.handled).toEqual([frame]);
    const tooSmall = setUp({ maxBytes: bytes - 1 });
    tooSmall.receive(frame);
    expect(tooSmall.handled).toEqual([]);
    expect(tooSmall.hooks).toEqual([
      { type: "payload", observed: bytes, limit: bytes - 1, id: "c1", key: "connection:c1", action: "send" },
    ]);
    expect(tooSmall.notices()).toEqual([
      {
        code: "RESOURCE_EXHAUSTED",
        message: "The frame is too large.",
        retryable: false,
        details: { type: "payload", observed: bytes, limit: bytes - 1 },
      },
    ]);
  });

  it("comes before anybody reads or asks, and costs the connection a token", async () => {
    const typeOf = vi.fn(() => "say");
    const limiter = few(1);
    const consume = vi.spyOn(limiter, "consumeSync");
    const { receive, handled, hooks } = setUp({
      maxBytes: 5,
      typeOf,
      types: ["say"],
      limits: { limiter },
      connection: perHour(2),
    });
    receive("far too large", "small", "small");
    expect(typeOf).toHaveBeenCalledTimes(2);
    expect(consume).toHaveBeenCalledTimes(1);
    expect(handled).toEqual(["small"]);
    expect(hooks.map(({ type }) => type)).toEqual(["payload", "rate"]);
  });

  it("is what the server says, where it knows", () => {
    const { connection, hooks } = setUp({ maxBytes: 5 });
    connection.receive("small", () => {}, 6);
    expect(hooks).toMatchObject([{ type: "payload", observed: 6 }]);
  });
});

describe("type", () => {
  it("is what typeOf tells, if it is one that there is", () => {
    const key = vi.fn(({ type }: Ingress) => type);
    const limits = { limiter: few(100), key };
    const { receive, handled, invalid } = setUp({ typeOf: jsonType(), types: ["say"], limits });
    receive(say("say"), say("shout"), say("__proto__"), '{"__proto__":{"type":"say"}}', "not JSON", "null", "[]", "");
    receive(new Uint8Array([0xff]), '{"type":1}', "{}");
    expect(handled).toEqual([say("say")]);
    expect(key.mock.results.map(({ value }) => value)).toEqual(["say", ...Array(10).fill("!invalid")]);
    expect(invalid).toHaveLength(10);
  });

  it("can't be waited for, which the operator is told, and a promise that fails is nobody's fault", async () => {
    const typeOf = (async () => Promise.reject(new Error("late"))) as never;
    const { receive, errors, invalid } = setUp({ typeOf, types: "any" });
    receive("1");
    expect(errors).toMatchObject([{ code: "invalid-option", option: "typeOf" }]);
    expect(invalid).toHaveLength(1);
  });

  it("may be any, where that is said", () => {
    const { receive, handled } = setUp({ typeOf: jsonType("op"), types: "any" });
    receive('{"op":"anything"}', '{"op":"constructor"}', '{"type":"say"}');
    expect(handled).toHaveLength(2);
  });

  it("of frames that can't be read has one bucket, which is charged", () => {
    const { receive, hooks, invalid, notices } = setUp({
      typeOf: jsonType(),
      types: ["say"],
      limits: { limiter: few(3) },
    });
    receive("junk", "more junk", say("unknown"), "and more", "and more");
    expect(invalid).toHaveLength(3);
    expect(hooks.map(({ key }) => key)).toEqual(Array(2).fill("public:ip:192.0.2.7:!invalid"));
    expect(notices().map(({ code }) => code)).toEqual(["INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"]);
  });
});

describe("rate", () => {
  it("asks the connection's own bucket first, whose token stays spent when the store denies", async () => {
    const limiter = few(2);
    const { receive, handled, hooks } = setUp({ connection: perHour(4), limits: { limiter, key: () => "all" } });
    receive("1", "2", "3", "4", "5");
    expect(handled).toEqual(["1", "2"]);
    expect(hooks.map(({ key }) => key)).toEqual(["all", "all", "connection:c1"]);
    // The fifth was not asked about: the store is as it was.
    expect((await limiter.peek("all")).remaining).toBe(0);
  });

  it("takes from the user and the type in one step, all or none", async () => {
    const store = memoryStore({ clock });
    const user = createLimiter({ store, policy: { ...perHour(3), name: "user" } });
    const type = createLimiter({ store, policy: { ...perHour(2), name: "type" } });
    const { receive, handled, hooks } = setUp(
      {
        typeOf: jsonType(),
        types: ["say", "ask"],
        limits: [{ limiter: user, key: perUserKey }, { limiter: type }],
      },
      { userId: "ann" },
    );
    receive(say("say"), say("say"), say("say"), say("ask"), say("ask"));
    expect(handled.map(String)).toEqual([say("say"), say("say"), say("ask")]);
    expect(hooks).toMatchObject([
      { key: "public:user:ann:say", limit: 2, observed: 1, retryAfterMs: 3_600_000 },
      { key: "public:user:ann", limit: 3, observed: 1, retryAfterMs: 3_600_000 },
    ]);
    expect((await user.peek("public:user:ann")).remaining).toBe(0);
    expect((await type.peek("public:user:ann:ask")).remaining).toBe(1);
  });

  it("names the key of the limit that binds, also inside a combination", () => {
    const store = memoryStore({ clock });
    const limiterOf = (name: string, capacity: number) =>
      createLimiter({ store, policy: { ...perHour(capacity), name } });
    const both = combine([limiterOf("a", 9), limiterOf("b", 9)]);
    const { receive, hooks } = setUp({
      limits: [
        { limiter: both, key: () => "first" },
        { limiter: limiterOf("c", 1), key: () => "second" },
      ],
    });
    receive("1", "2");
    expect(hooks).toMatchObject([{ key: "second", limit: 1 }]);
  });

  it("has limits by type and by plan: who has none is not limited by it", () => {
    const byType = new Map([["ask", few(1)]]);
    const plans = { free: few(2), paid: few(3) };
    const limits = [
      { limiter: ({ type }: Ingress) => byType.get(type), key: () => "type" },
      { limiter: ({ data }: Ingress<Data>) => (data?.plan === "paid" ? plans.paid : plans.free), key: () => "plan" },
    ];
    const frames = [say("say"), say("say"), say("say"), say("say")];
    const free = setUp({ typeOf: jsonType(), types: ["say", "ask"], limits }, { plan: "free" });
    free.receive(...frames);
    expect(free.handled).toHaveLength(2);
    const paid = setUp({ typeOf: jsonType(), types: ["say", "ask"], limits }, { plan: "paid" });
    paid.receive(say("ask"), say("ask"), ...frames);
    expect(paid.handled).toEqual([say("ask"), say("say"), say("say")]);
  });

  it("is free at a cost of 0, and asks nobody then", () => {
    const limiter = few(1);
    const consume = vi.spyOn(limiter, "consumeSync");
    const { receive, handled } = setUp({ limits: { limiter, cost: () => 0 } });
    receive("1", "2", "3");
    expect(handled).toHaveLength(3);
    expect(consume).not.toHaveBeenCalled();
  });

  it("can't be met by what never fits: FAILED_PRECONDITION, told and not closed, and no strike", () => {
    const { receive, notices, hooks, closes } = setUp({
      limits: { limiter: few(3), cost: () => 4 },
      onExceeded: "close",
      closeAfter: 1,
    });
    receive("1", "2");
    expect(hooks).toMatchObject([
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
    "refuses a cost of %s with INVALID_ARGUMENT, and changes nothing",
    async (cost) => {
      const limiter = few(3);
      const { receive, handled, notices, errors, hooks } = setUp({
        limits: { limiter, key: () => "all", cost: () => cost as never },
      });
      receive("1");
      expect(handled).toEqual([]);
      expect(hooks).toEqual([]);
      expect(notices()).toMatchObject([{ code: "INVALID_ARGUMENT", retryable: false }]);
      expect(errors).toMatchObject([{ code: "invalid-cost" }]);
      expect((await limiter.inspect("all")).found).toBe(false);
    },
  );

  it.each<[string, GuardOptions<Data>["limits"]]>([
    ["a key that is empty", { limiter: few(1), key: () => "" }],
    ["a key that is none", { limiter: few(1), key: () => undefined as never }],
    [
      "a key function that throws",
      {
        limiter: few(1),
        key: () => {
          throw new TypeError("of the application");
        },
      },
    ],
    ["a limiter that is none", { limiter: () => ({}) as never }],
    ["a promise of a limiter", { limiter: (async () => Promise.reject(new Error("late"))) as never }],
    ["a promise of a key", { limiter: few(1), key: (async () => Promise.reject(new Error("late"))) as never }],
    ["a promise of a cost", { limiter: few(1), cost: (async () => Promise.reject(new Error("late"))) as never }],
  ])("fails closed at %s", (_, limits) => {
    const { receive, handled, errors, notices } = setUp({ limits: limits as never });
    receive("1");
    expect(handled).toEqual([]);
    expect(errors).toHaveLength(1);
    expect(notices()).toMatchObject([{ code: "INVALID_ARGUMENT" }]);
  });

  it("tells the exact wait, which is then enough and not a millisecond less", () => {
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
  it("have a bucket of their own, and are handled", () => {
    const limiter = few(1);
    const { receive, handled, hooks, connection } = setUp({
      typeOf: jsonType(),
      types: ["say"],
      heartbeats: ["ping"],
      heartbeat: perHour(3),
      connection: perHour(1),
      limits: { limiter },
    });
    receive(say("ping"), say("ping"), say("say"));
    expect(handled).toHaveLength(3);
    // Control frames share it.
    expect(connection.ping()).toBe(true);
    expect(connection.ping()).toBe(false);
    receive(say("ping"));
    expect(handled).toHaveLength(3);
    expect(hooks).toMatchObject([{ key: "heartbeat:c1", limit: 3 }, { key: "heartbeat:c1" }]);
  });

  it("are not a way around: 2 a second with a burst of 10 unless told otherwise", () => {
    const { connection } = setUp();
    const answered = () => Array.from({ length: 20 }, () => connection.ping()).filter(Boolean).length;
    expect(answered()).toBe(10);
    clock.advance(1000);
    expect(answered()).toBe(2);
  });
});

describe("what is not for a handler", () => {
  it("counts as a frame of the connection", () => {
    const { connection, hooks, closes } = setUp({ connection: perHour(2) });
    expect([connection.control(), connection.control(), connection.control()]).toEqual([true, true, false]);
    // What can't be dropped closes, whatever is done about frames.
    expect(connection.control(true)).toBe(false);
    expect(hooks).toMatchObject([
      { key: "connection:c1", action: "send" },
      { key: "connection:c1", action: "close" },
    ]);
    expect(closes.map(([code]) => code)).toEqual([1013]);
    expect(setUp({ connection: false }).connection.control()).toBe(true);
  });
});

describe("how many at once", () => {
  it("counts handlers that have not ended", async () => {
    const { connection, hooks, notices } = setUp({ maxPending: 2 });
    const ends: (() => void)[] = [];
    const handle = vi.fn(() => new Promise<void>((resolve) => ends.push(resolve)));
    for (const frame of ["1", "2", "3"]) connection.receive(frame, handle);
    expect(handle).toHaveBeenCalledTimes(2);
    expect(hooks).toEqual([
      { type: "inflight", observed: 3, limit: 2, id: "c1", key: "connection:c1", action: "send" },
    ]);
    expect(notices()).toMatchObject([{ code: "RESOURCE_EXHAUSTED", retryable: true }]);
    ends[0]?.();
    await Promise.resolve();
    connection.receive("4", handle);
    connection.receive("5", handle);
    expect(handle).toHaveBeenCalledTimes(3);
  });

  it("forgets those that failed, whose errors are the application's", async () => {
    const { connection, errors, hooks } = setUp({ maxPending: 1 });
    connection.receive("1", () => Promise.reject(new Error("later")));
    await Promise.resolve();
    await Promise.resolve();
    connection.receive("2", () => {
      throw new Error("at once");
    });
    connection.receive("3", () => {});
    expect(errors.map(String)).toEqual(["Error: later", "Error: at once"]);
    expect(hooks).toEqual([]);
  });

  it("is what waits for a store, too: frames and bytes", async () => {
    const { limiter, asked } = remote(100);
    const byFrames = setUp({ limits: { limiter }, maxQueued: 3 });
    byFrames.receive("1", "2", "3", "4");
    expect(asked).toHaveLength(3);
    expect(byFrames.hooks).toMatchObject([{ type: "inflight", observed: 4, limit: 3 }]);
    const byBytes = setUp({ limits: { limiter }, maxBytes: 10, maxQueuedBytes: 15 });
    byBytes.receive("x".repeat(10), "y".repeat(6), "z".repeat(5));
    expect(asked).toHaveLength(5);
    expect(byBytes.hooks).toMatchObject([{ type: "inflight" }]);
    await asked[3]?.answer();
    await asked[4]?.answer();
    expect(byBytes.handled).toEqual(["x".repeat(10), "z".repeat(5)]);
    // There is room again.
    byBytes.receive("y".repeat(10));
    expect(asked).toHaveLength(6);
  });
});

describe("validation", () => {
  it("comes after payment, and turns down by false or by throwing", () => {
    const invalid = vi.fn();
    const limiter = few(4);
    const validate = vi.fn((frame: Frame) => {
      if (frame === "throws") throw new Error("no");
      return frame !== "false";
    });
    const { receive, handled, hooks } = setUp({ validate, limits: { limiter }, onInvalid: invalid });
    receive("good", "false", "throws", "good", "good");
    expect(handled).toEqual(["good", "good"]);
    expect(validate).toHaveBeenCalledTimes(4);
    expect(hooks).toHaveLength(1);
    expect(invalid.mock.calls.map(([, error]) => error)).toEqual([false, new Error("no")]);
  });

  it.each<[string, unknown, boolean]>([
    ["nothing", undefined, true],
    ["what a schema has parsed", { success: "yes" }, true],
    ["a schema's success", { success: true, data: 1 }, true],
    ["a schema's failure", { success: false, error: "no" }, false],
    ["issues of a standard schema", { issues: [{ message: "no" }] }, false],
    ["no issues", { value: 1, issues: undefined }, true],
  ])("understands %s", (_, verdict, fits) => {
    const { receive, handled } = setUp({ validate: () => verdict });
    receive("1");
    expect(handled).toHaveLength(fits ? 1 : 0);
  });

  it("is not fooled by a promise", async () => {
    const invalid = vi.fn();
    const { receive, handled } = setUp({ validate: async () => true, onInvalid: invalid });
    receive("1");
    expect(handled).toEqual([]);
    expect(invalid.mock.calls[0]?.[1]).toMatchObject({ code: "invalid-option", option: "validate" });
  });
});

describe("a connection that is taken up again", () => {
  it("goes on where it was, and begins anew where the state is of another policy", () => {
    const options = { connection: perHour(3), closeAfter: 2 };
    const before = setUp(options);
    before.receive("1", "2");
    const state = JSON.parse(JSON.stringify(before.connection.state()));
    const again = (options: GuardOptions<Data>, state: object) => {
      const { guard, peer, hooks } = setUp(options);
      const connection = guard.attach(peer, state as never);
      const handle = vi.fn();
      for (let n = 0; n < 5; n++) connection.receive("x", handle);
      return { handled: handle.mock.calls.length, hooks: hooks.length };
    };
    expect(again(options, state).handled).toBe(1);
    expect(
      again({ ...options, connection: { algorithm: "sliding-window", limit: 3, windowMs: 1000 } }, state).handled,
    ).toBe(3);
    expect(again(options, { ...state, own: ["junk"] }).handled).toBe(3);
    expect(again(options, { ...state, strikes: 1, struckAt: clock.now() }).hooks).toBe(1);
  });
});

it("knows another tenant of the same user from the moment that is said", () => {
  const { receive, hooks, connection } = setUp({ limits: { limiter: few(1) } }, { userId: "ann" });
  receive("1", "2");
  connection.data = { userId: "ann", tenantId: "acme" };
  receive("3", "4");
  expect(hooks.map(({ key }) => key)).toEqual(["public:user:ann:", "acme:user:ann:"]);
});

it("knows who somebody is from the moment that is proved", () => {
  const { receive, hooks, connection } = setUp({ limits: { limiter: few(1) } });
  receive("1", "2");
  connection.data = { userId: "ann" };
  receive("3", "4");
  expect(hooks.map(({ key }) => key)).toEqual(["public:ip:192.0.2.7:", "public:user:ann:"]);
  expect(connection.data).toEqual({ userId: "ann" });
});

it("leaves an error of a handler to the process where nobody listens", async () => {
  const { connection } = setUp({ onError: undefined as never });
  const seen: unknown[] = [];
  const listener = (error: unknown) => seen.push(error);
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
  process.on("unhandledRejection", listener);
  connection.receive("1", () => {
    throw new Error("of the handler");
  });
  await new Promise((resolve) => setTimeout(resolve));
  process.off("unhandledRejection", listener);
  for (const other of others) process.on("unhandledRejection", other);
  expect(seen).toEqual([new Error("of the handler")]);
});
