/** What becomes of a client whose frame does not pass. */
import { createLimiter, memoryRateLimiter, memoryStore } from "sluice";
import { type Connection, jsonRpcError, jsonType, perUserKey } from "sluice/ws";
import { describe, expect, it } from "vitest";
import { clock, type Data, few, say, setUp } from "../../../test/ws/set-up.ts";

describe("answers", () => {
  it("tell of each limit once while it lasts: a flood in is not a flood out", () => {
    const { receive, told, hooks } = setUp({
      connection: false,
      limits: { limiter: memoryRateLimiter({ capacity: 1, tokensPerSecond: "1/m" }, { clock }) },
    });
    for (let n = 0; n < 1000; n++) receive("x");
    expect(told).toHaveLength(1);
    clock.advance(59_000);
    receive("x");
    expect(told).toHaveLength(1);
    clock.advance(1000);
    // The one that would fit by now, and two more.
    receive("x", "x", "x");
    expect(told).toHaveLength(2);
    expect(hooks).toHaveLength(1002);
  });

  it("are bounded however many limits there are", () => {
    let n = 0;
    const limiter = few(1);
    const { receive, told } = setUp({ connection: false, limits: { limiter, key: () => `key ${n++ >> 1}` } });
    for (let i = 0; i < 100; i++) receive("x");
    expect(told).toHaveLength(8);
    clock.advance(60_000);
    for (let i = 0; i < 100; i++) receive("x");
    expect(told).toHaveLength(16);
  });

  it("are written in any protocol: JSON-RPC 2.0 with the id of the call", () => {
    const { receive, told } = setUp({ limits: { limiter: few(1), key: () => "all" }, encode: jsonRpcError });
    const call = (id: unknown) => JSON.stringify({ jsonrpc: "2.0", method: "say", id });
    receive(call(1), call(2));
    clock.advance(60_000);
    receive(call({ not: "an id" }));
    clock.advance(60_000);
    receive(new Uint8Array(1));
    clock.advance(60_000);
    receive("not JSON");
    expect(JSON.parse(told[0] ?? "")).toEqual({
      jsonrpc: "2.0",
      id: 2,
      error: {
        code: -32029,
        message: "Too many messages.",
        data: {
          code: "RESOURCE_EXHAUSTED",
          retryable: true,
          retryAfterMs: 3_600_000,
          details: { type: "rate", observed: 1, limit: 1 },
        },
      },
    });
    expect(told.map((text) => JSON.parse(text).id)).toEqual([2, null, null, null]);
  });

  it("say nothing where a protocol has no words for it, and tell the next: a call of JSON-RPC without an id", () => {
    const { receive, told, hooks } = setUp({ limits: { limiter: few(1), key: () => "all" }, encode: jsonRpcError });
    const call = (id?: number) => JSON.stringify({ jsonrpc: "2.0", method: "say", id });
    receive(call(1), call(), call(), call(2), call(3));
    // An answer has the id of a call of the server's.
    clock.advance(60_000);
    receive(JSON.stringify({ jsonrpc: "2.0", id: 1, result: "x" }));
    expect(told.map((text) => JSON.parse(text).id)).toEqual([2, null]);
    expect(hooks).toHaveLength(5);
  });

  it("tell of each limit, also where several have the same key, and always what never fits", () => {
    const store = memoryStore({ clock });
    const limited = (capacity: number, name: string) =>
      createLimiter({ store, policy: { capacity, tokensPerSecond: "1/h", name } });
    const { receive, notices } = setUp({
      typeOf: jsonType(),
      types: ["say", "compute", "huge"],
      limits: [
        { limiter: limited(5, "user"), key: perUserKey, cost: ({ type }) => (type === "huge" ? 6 : 1) },
        { limiter: ({ type }) => (type === "compute" ? compute : undefined), key: perUserKey },
      ],
    });
    const compute = limited(1, "compute");
    const frames = ["compute", "compute", "say", "say", "say", "say", "say", "huge", "compute", "say", "huge"];
    receive(...frames.map((type) => say(type)));
    expect(notices()).toMatchObject([
      { code: "RESOURCE_EXHAUSTED", details: { limit: 1 } },
      { code: "RESOURCE_EXHAUSTED", details: { limit: 5 } },
      { code: "FAILED_PRECONDITION", details: { limit: 5, observed: 6 } },
    ]);
  });

  it("survive an encoder, a socket and hooks that fail, and report them", async () => {
    const { receive, errors, handled } = setUp({
      limits: { limiter: few(1) },
      encode: () => {
        throw new Error("of the encoder");
      },
      onLimitExceeded: async () => {
        throw new Error("of the hook");
      },
    });
    receive("1", "2");
    await Promise.resolve();
    await Promise.resolve();
    expect(handled).toEqual(["1"]);
    expect(errors.map(String).sort()).toEqual(["Error: of the encoder", "Error: of the hook"]);
  });

  it("can't be waited for", async () => {
    const encode = (async () => Promise.reject(new Error("late"))) as never;
    const { receive, told, errors } = setUp({ limits: { limiter: few(1) }, encode });
    receive("1", "2");
    expect(told).toEqual([]);
    expect(errors).toMatchObject([{ code: "invalid-option", option: "encode" }]);
  });

  it("survive a listener to errors that fails itself", () => {
    const { receive, handled } = setUp({
      limits: { limiter: few(1) },
      onLimitExceeded: () => {
        throw new Error("of the hook");
      },
      onError: () => {
        throw new Error("of the listener");
      },
    });
    receive("1", "2");
    expect(handled).toEqual(["1"]);
  });
});

describe("what is done", () => {
  it("is what a function says, which a fault turns into telling", () => {
    const actions = ["custom", "send", "nonsense", Promise.reject(new Error("late")), "ban"];
    const { receive, hooks, told, closes, errors } = setUp({
      limits: { limiter: few(1), cost: () => 1 },
      onExceeded: (info, ingress) => {
        expect(info).not.toHaveProperty("action");
        expect(ingress).toMatchObject({ id: "c1", ip: "192.0.2.7" });
        return actions.shift() as never;
      },
    });
    receive("1", "2", "3", "4", "5", "6", "7");
    expect(hooks.map(({ action }) => action)).toEqual(["custom", "send", "send", "send", "ban"]);
    expect(told).toHaveLength(1);
    expect(errors).toMatchObject(Array(2).fill({ code: "invalid-option", option: "onExceeded" }));
    expect(closes).toEqual([[1008, '{"limit":"rate","banned":true}']]);
  });

  it("is closing at so many denied frames, which a minute of peace forgets", () => {
    const { receive, closes, hooks } = setUp({
      limits: { limiter: few(1) },
      closeAfter: 3,
      onExceeded: "custom",
    });
    receive("1", "2", "3");
    clock.advance(60_000);
    receive("4", "5");
    expect(closes).toEqual([]);
    clock.advance(59_999);
    receive("6");
    expect(closes).toHaveLength(1);
    expect(hooks.at(-1)).toMatchObject({ action: "close" });
  });

  it("has the codes that it is told, and private ones where a socket allows no others", () => {
    const codes = { rate: 4000, payload: 4001, ban: 4002 };
    const told = setUp({ maxBytes: 3, onExceeded: "close", closeCodes: codes });
    told.receive("large");
    expect(told.closes).toEqual([[4001, '{"limit":"payload"}']]);
    const strict = setUp({ limits: { limiter: few(1) }, onExceeded: "close" });
    const { close } = strict.peer;
    strict.peer.close = (code, reason) => {
      if (code !== 1000 && code < 3000) throw new DOMException("InvalidAccessError");
      close(code, reason);
    };
    strict.receive("1", "2");
    expect(strict.closes).toMatchObject([[4429, expect.any(String)]]);
    expect(strict.errors).toEqual([]);
  });

  it("gives reasons that fit a close frame", () => {
    const { receive, closes } = setUp({ onExceeded: "close", connection: { capacity: 1, tokensPerSecond: "1/365d" } });
    receive("1", "2");
    expect(new TextEncoder().encode(closes[0]?.[1]).length).toBeLessThanOrEqual(123);
  });

  it("is told before it is done, and left out when the hook has closed the connection", () => {
    let held: Connection<Data> | undefined;
    const { receive, told, connection } = setUp({ limits: { limiter: few(1) }, onLimitExceeded: () => held?.end() });
    held = connection;
    receive("1", "2");
    expect(told).toEqual([]);
  });
});
