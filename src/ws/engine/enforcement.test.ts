/** Notices, strikes and closes after rejected frames. */
import { createLimiter, memoryRateLimiter, memoryStore } from "sluice";
import { type Connection, jsonRpcError, jsonType, perUserKey } from "sluice/ws";
import { describe, expect, it } from "vitest";
import { clock, type Data, few, message, setUp } from "../../../test/ws/set-up.ts";

describe("notices", () => {
  it("are sent once per limit and wait, however many frames are denied", () => {
    const { receive, sent, exceeded } = setUp({
      connection: false,
      limits: { limiter: memoryRateLimiter({ capacity: 1, tokensPerSecond: "1/m" }, { clock }) },
    });
    for (let n = 0; n < 1000; n++) receive("x");
    expect(sent).toHaveLength(1);
    clock.advance(59_000);
    receive("x");
    expect(sent).toHaveLength(1);
    clock.advance(1000);
    // One frame is allowed by now, and two are denied.
    receive("x", "x", "x");
    expect(sent).toHaveLength(2);
    expect(exceeded).toHaveLength(1002);
  });

  it("are bounded for any number of limits", () => {
    let n = 0;
    const limiter = few(1);
    const { receive, sent } = setUp({ connection: false, limits: { limiter, key: () => `key ${n++ >> 1}` } });
    for (let i = 0; i < 100; i++) receive("x");
    expect(sent).toHaveLength(8);
    clock.advance(60_000);
    for (let i = 0; i < 100; i++) receive("x");
    expect(sent).toHaveLength(16);
  });

  it("can be JSON-RPC 2.0 errors with the id of the call", () => {
    const { receive, sent } = setUp({ limits: { limiter: few(1), key: () => "all" }, encode: jsonRpcError });
    const call = (id: unknown) => JSON.stringify({ jsonrpc: "2.0", method: "say", id });
    receive(call(1), call(2));
    clock.advance(60_000);
    receive(call({ not: "an id" }));
    clock.advance(60_000);
    receive(new Uint8Array(1));
    clock.advance(60_000);
    receive("not JSON");
    expect(JSON.parse(sent[0] ?? "")).toEqual({
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
    expect(sent.map((text) => JSON.parse(text).id)).toEqual([2, null, null, null]);
  });

  it("are skipped if encode returns undefined, as for JSON-RPC notifications, and sent for the next frame", () => {
    const { receive, sent, exceeded } = setUp({ limits: { limiter: few(1), key: () => "all" }, encode: jsonRpcError });
    const call = (id?: number) => JSON.stringify({ jsonrpc: "2.0", method: "say", id });
    receive(call(1), call(), call(), call(2), call(3));
    // A response to a call of the server has an id that the client did not choose.
    clock.advance(60_000);
    receive(JSON.stringify({ jsonrpc: "2.0", id: 1, result: "x" }));
    expect(sent.map((text) => JSON.parse(text).id)).toEqual([2, null]);
    expect(exceeded).toHaveLength(5);
  });

  it("are sent for each limit, also if several share a key, and for costs that never fit", () => {
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
    receive(...frames.map((type) => message(type)));
    expect(notices()).toMatchObject([
      { code: "RESOURCE_EXHAUSTED", details: { limit: 1 } },
      { code: "RESOURCE_EXHAUSTED", details: { limit: 5 } },
      { code: "FAILED_PRECONDITION", details: { limit: 5, observed: 6 } },
    ]);
  });

  it("report errors of encode and of listeners without breaking the connection", async () => {
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

  it("are not sent if encode is asynchronous", async () => {
    const encode = (async () => Promise.reject(new Error("late"))) as never;
    const { receive, sent, errors } = setUp({ limits: { limiter: few(1) }, encode });
    receive("1", "2");
    expect(sent).toEqual([]);
    expect(errors).toMatchObject([{ code: "invalid-option", option: "encode" }]);
  });

  it("do not break if onError throws", () => {
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

describe("the action", () => {
  it("is the result of a function, or send if the function fails", () => {
    const actions = ["custom", "send", "nonsense", Promise.reject(new Error("late")), "ban"];
    const { receive, exceeded, sent, closes, errors } = setUp({
      limits: { limiter: few(1), cost: () => 1 },
      onExceeded: (info, ingress) => {
        expect(info).not.toHaveProperty("action");
        expect(ingress).toMatchObject({ id: "c1", ip: "192.0.2.7" });
        return actions.shift() as never;
      },
    });
    receive("1", "2", "3", "4", "5", "6", "7");
    expect(exceeded.map(({ action }) => action)).toEqual(["custom", "send", "send", "send", "ban"]);
    expect(sent).toHaveLength(1);
    expect(errors).toMatchObject(Array(2).fill({ code: "invalid-option", option: "onExceeded" }));
    expect(closes).toEqual([[1008, '{"limit":"rate","banned":true}']]);
  });

  it("is close after closeAfter denied frames, reset by a minute without one", () => {
    const { receive, closes, exceeded } = setUp({
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
    expect(exceeded.at(-1)).toMatchObject({ action: "close" });
  });

  it("uses the configured close codes, and private ones if the socket rejects them", () => {
    const codes = { rate: 4000, payload: 4001, ban: 4002 };
    const sent = setUp({ maxBytes: 3, onExceeded: "close", closeCodes: codes });
    sent.receive("large");
    expect(sent.closes).toEqual([[4001, '{"limit":"payload"}']]);
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

  it("has a reason that fits a close frame", () => {
    const { receive, closes } = setUp({ onExceeded: "close", connection: { capacity: 1, tokensPerSecond: "1/365d" } });
    receive("1", "2");
    expect(new TextEncoder().encode(closes[0]?.[1]).length).toBeLessThanOrEqual(123);
  });

  it("is reported before it is taken, and skipped if the listener has closed the connection", () => {
    let held: Connection<Data> | undefined;
    const { receive, sent, connection } = setUp({ limits: { limiter: few(1) }, onLimitExceeded: () => held?.end() });
    held = connection;
    receive("1", "2");
    expect(sent).toEqual([]);
  });
});
