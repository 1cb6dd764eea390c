import { type Frame, type GuardOptions, type Ingress, jsonType } from "sluice/ws";
import { describe, expect, it, vi } from "vitest";
import { clock, type Data, few, message, perHour, remote, setUp } from "../../../test/ws/set-up.ts";

describe("frame size", () => {
  it.each<[string, Frame, number]>([
    ["text", "12345678", 8],
    ["text beyond ASCII", "üüüü", 8],
    ["text with a lone surrogate", "a\ud800bcde", 8],
    ["bytes", new Uint8Array(8), 8],
    ["a DataView", new DataView(new ArrayBuffer(16), 8), 8],
    ["an ArrayBuffer", new ArrayBuffer(8), 8],
  ])("is counted in bytes: %s", (_, frame, bytes) => {
    const fits = setUp({ maxBytes: bytes });
    fits.receive(frame);
    expect(fits.handled).toEqual([frame]);
    const tooSmall = setUp({ maxBytes: bytes - 1 });
    tooSmall.receive(frame);
    expect(tooSmall.handled).toEqual([]);
    expect(tooSmall.exceeded).toEqual([
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

  it("is checked before typeOf and the limiters, and charged to the connection's bucket", async () => {
    const typeOf = vi.fn(() => "say");
    const limiter = few(1);
    const consume = vi.spyOn(limiter, "consumeSync");
    const { receive, handled, exceeded } = setUp({
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
    expect(exceeded.map(({ type }) => type)).toEqual(["payload", "rate"]);
  });

  it("is taken from the server if it is known", () => {
    const { connection, exceeded } = setUp({ maxBytes: 5 });
    connection.receive("small", () => {}, 6);
    expect(exceeded).toMatchObject([{ type: "payload", observed: 6 }]);
  });
});

describe("frame type", () => {
  it("is the result of typeOf, if it is listed in types", () => {
    const key = vi.fn(({ type }: Ingress) => type);
    const limits = { limiter: few(100), key };
    const { receive, handled, invalid } = setUp({ typeOf: jsonType(), types: ["say"], limits });
    receive(
      message("say"),
      message("shout"),
      message("__proto__"),
      '{"__proto__":{"type":"say"}}',
      "not JSON",
      "null",
      "[]",
      "",
    );
    receive(new Uint8Array([0xff]), '{"type":1}', "{}");
    expect(handled).toEqual([message("say")]);
    expect(key.mock.results.map(({ value }) => value)).toEqual(["say", ...Array(10).fill("!invalid")]);
    expect(invalid).toHaveLength(10);
  });

  it("is invalid if typeOf returns a promise, which is reported to onError", async () => {
    const typeOf = (async () => Promise.reject(new Error("late"))) as never;
    const { receive, errors, invalid } = setUp({ typeOf, types: "any" });
    receive("1");
    expect(errors).toMatchObject([{ code: "invalid-option", option: "typeOf" }]);
    expect(invalid).toHaveLength(1);
  });

  it("can be any string if types is any", () => {
    const { receive, handled } = setUp({ typeOf: jsonType("op"), types: "any" });
    receive('{"op":"anything"}', '{"op":"constructor"}', '{"type":"say"}');
    expect(handled).toHaveLength(2);
  });

  it("of invalid frames has one bucket, which is charged", () => {
    const { receive, exceeded, invalid, notices } = setUp({
      typeOf: jsonType(),
      types: ["say"],
      limits: { limiter: few(3) },
    });
    receive("junk", "more junk", message("unknown"), "and more", "and more");
    expect(invalid).toHaveLength(3);
    expect(exceeded.map(({ key }) => key)).toEqual(Array(2).fill("public:ip:192.0.2.7:!invalid"));
    expect(notices().map(({ code }) => code)).toEqual(["INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"]);
  });
});

describe("the limit of frames in flight", () => {
  it("counts handlers that have not settled", async () => {
    const { connection, exceeded, notices } = setUp({ maxPending: 2 });
    const ends: (() => void)[] = [];
    const handle = vi.fn(() => new Promise<void>((resolve) => ends.push(resolve)));
    for (const frame of ["1", "2", "3"]) connection.receive(frame, handle);
    expect(handle).toHaveBeenCalledTimes(2);
    expect(exceeded).toEqual([
      { type: "inflight", observed: 3, limit: 2, id: "c1", key: "connection:c1", action: "send" },
    ]);
    expect(notices()).toMatchObject([{ code: "RESOURCE_EXHAUSTED", retryable: true }]);
    ends[0]?.();
    await Promise.resolve();
    connection.receive("4", handle);
    connection.receive("5", handle);
    expect(handle).toHaveBeenCalledTimes(3);
  });

  it("does not count failed handlers, whose errors are passed to onError", async () => {
    const { connection, errors, exceeded } = setUp({ maxPending: 1 });
    connection.receive("1", () => Promise.reject(new Error("later")));
    await Promise.resolve();
    await Promise.resolve();
    connection.receive("2", () => {
      throw new Error("at once");
    });
    connection.receive("3", () => {});
    expect(errors.map(String)).toEqual(["Error: later", "Error: at once"]);
    expect(exceeded).toEqual([]);
  });

  it("includes queued frames and their bytes", async () => {
    const { limiter, calls } = remote(100);
    const byFrames = setUp({ limits: { limiter }, maxQueued: 3 });
    byFrames.receive("1", "2", "3", "4");
    expect(calls).toHaveLength(3);
    expect(byFrames.exceeded).toMatchObject([{ type: "inflight", observed: 4, limit: 3 }]);
    const byBytes = setUp({ limits: { limiter }, maxBytes: 10, maxQueuedBytes: 15 });
    byBytes.receive("x".repeat(10), "y".repeat(6), "z".repeat(5));
    expect(calls).toHaveLength(5);
    expect(byBytes.exceeded).toMatchObject([{ type: "inflight" }]);
    await calls[3]?.reply();
    await calls[4]?.reply();
    expect(byBytes.handled).toEqual(["x".repeat(10), "z".repeat(5)]);
    // The queue has space again.
    byBytes.receive("y".repeat(10));
    expect(calls).toHaveLength(6);
  });
});

describe("validation", () => {
  it("runs after charging, and rejects a frame by returning false or throwing", () => {
    const invalid = vi.fn();
    const limiter = few(4);
    const validate = vi.fn((frame: Frame) => {
      if (frame === "throws") throw new Error("no");
      return frame !== "false";
    });
    const { receive, handled, exceeded } = setUp({ validate, limits: { limiter }, onInvalid: invalid });
    receive("good", "false", "throws", "good", "good");
    expect(handled).toEqual(["good", "good"]);
    expect(validate).toHaveBeenCalledTimes(4);
    expect(exceeded).toHaveLength(1);
    expect(invalid.mock.calls.map(([, error]) => error)).toEqual([false, new Error("no")]);
  });

  it.each<[string, unknown, boolean]>([
    ["nothing", undefined, true],
    ["a parsed value", { success: "yes" }, true],
    ["a schema's success", { success: true, data: 1 }, true],
    ["a schema's failure", { success: false, error: "no" }, false],
    ["issues of a standard schema", { issues: [{ message: "no" }] }, false],
    ["no issues", { value: 1, issues: undefined }, true],
  ])("accepts or rejects %s", (_, verdict, fits) => {
    const { receive, handled } = setUp({ validate: () => verdict });
    receive("1");
    expect(handled).toHaveLength(fits ? 1 : 0);
  });

  it("rejects a frame if it returns a promise", async () => {
    const invalid = vi.fn();
    const { receive, handled } = setUp({ validate: async () => true, onInvalid: invalid });
    receive("1");
    expect(handled).toEqual([]);
    expect(invalid.mock.calls[0]?.[1]).toMatchObject({ code: "invalid-option", option: "validate" });
  });
});

describe("a restored connection", () => {
  it("continues from its state, and starts with full buckets if the state is of another policy", () => {
    const options = { connection: perHour(3), closeAfter: 2 };
    const before = setUp(options);
    before.receive("1", "2");
    const state = JSON.parse(JSON.stringify(before.connection.state()));
    const again = (options: GuardOptions<Data>, state: object) => {
      const { guard, peer, exceeded } = setUp(options);
      const connection = guard.attach(peer, state as never);
      const handle = vi.fn();
      for (let n = 0; n < 5; n++) connection.receive("x", handle);
      return { handled: handle.mock.calls.length, exceeded: exceeded.length };
    };
    expect(again(options, state).handled).toBe(1);
    expect(
      again({ ...options, connection: { algorithm: "sliding-window", limit: 3, windowMs: 1000 } }, state).handled,
    ).toBe(3);
    expect(again(options, { ...state, bucket: ["junk"] }).handled).toBe(3);
    expect(again(options, { ...state, strikes: 1, lastStrikeAt: clock.now() }).exceeded).toBe(1);
  });
});

it("uses a new tenant of the same user from the next frame on", () => {
  const { receive, exceeded, connection } = setUp({ limits: { limiter: few(1) } }, { userId: "ann" });
  receive("1", "2");
  connection.data = { userId: "ann", tenantId: "acme" };
  receive("3", "4");
  expect(exceeded.map(({ key }) => key)).toEqual(["public:user:ann:", "acme:user:ann:"]);
});

it("uses a new user from the next frame on", () => {
  const { receive, exceeded, connection } = setUp({ limits: { limiter: few(1) } });
  receive("1", "2");
  connection.data = { userId: "ann" };
  receive("3", "4");
  expect(exceeded.map(({ key }) => key)).toEqual(["public:ip:192.0.2.7:", "public:user:ann:"]);
  expect(connection.data).toEqual({ userId: "ann" });
});

it("leaves a handler's error unhandled without onError", async () => {
  const { connection } = setUp({ onError: undefined as never });
  const seen: unknown[] = [];
  const listener = (error: unknown) => seen.push(error);
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
  process.on("unhandledRejection", listener);
  connection.receive("1", () => {
    throw new Error("of the handler");
  });
  // Bun may report it after the timers of the current turn.
  await vi.waitFor(() => expect(seen).toHaveLength(1));
  process.off("unhandledRejection", listener);
  for (const other of others) process.on("unhandledRejection", other);
  expect(seen).toEqual([new Error("of the handler")]);
});
