/** Limits at every level: global, per user, address, connection, type, handler and room. */
import { combine, memoryRateLimiter, type RateLimiter } from "sluice";
import { createGuard, type GuardOptions, type Ingress, jsonType, keyPerUserPerType, perUserKey } from "sluice/ws";
import { describe, expect, it } from "vitest";

interface Data {
  userId?: string;
  room?: string;
}

const few = (capacity: number): RateLimiter => memoryRateLimiter({ capacity, tokensPerSecond: "1/h" });

/** Returns a function that connects to one guard, and returns how many frames of the connection were handled. */
function setUp(options: GuardOptions<Data>) {
  const guard = createGuard<Data>({ connection: false, typeOf: jsonType(), types: ["say", "compute"], ...options });
  let ids = 0;
  return (ip: string, data: Data = {}) => {
    const connection = guard.attach({ id: `${ids++}`, ip, data, send: () => {}, close: () => {} });
    return (frames: number, type = "say"): number => {
      let handled = 0;
      for (let n = 0; n < frames; n++) connection.receive(JSON.stringify({ type }), () => handled++);
      return handled;
    };
  };
}

describe("a frame limit", () => {
  it("can be global", () => {
    const connect = setUp({ limits: { limiter: few(5), key: () => "everybody" } });
    const [ann, ben] = [connect("192.0.2.1", { userId: "ann" }), connect("192.0.2.2", { userId: "ben" })];
    expect([ann(3), ben(3)]).toEqual([3, 2]);
  });

  it("can be per user, across the user's connections", () => {
    const connect = setUp({ limits: { limiter: few(3), key: perUserKey } });
    const [phone, laptop] = [connect("192.0.2.1", { userId: "ann" }), connect("192.0.2.2", { userId: "ann" })];
    const ben = connect("192.0.2.1", { userId: "ben" });
    expect([phone(2), laptop(2), ben(4)]).toEqual([2, 1, 3]);
  });

  it("can be per IP address, shared by anonymous clients", () => {
    const connect = setUp({ limits: { limiter: few(3), key: ({ ip, id }) => `ip:${ip ?? id}` } });
    const [one, another, elsewhere] = [connect("192.0.2.1"), connect("192.0.2.1"), connect("192.0.2.2")];
    expect([one(2), another(2), elsewhere(2)]).toEqual([2, 1, 2]);
  });

  it("can be per connection", () => {
    const connect = setUp({ connection: { capacity: 3, tokensPerSecond: "1/h" } });
    const [one, another] = [connect("192.0.2.1", { userId: "ann" }), connect("192.0.2.1", { userId: "ann" })];
    expect([one(5), another(5)]).toEqual([3, 3]);
  });

  it("can be per message type", () => {
    const byType = new Map([
      ["say", few(10)],
      ["compute", few(1)],
    ]);
    const limiter = ({ type }: Ingress) => byType.get(type);
    const connect = setUp({ limits: { limiter, key: keyPerUserPerType } });
    const ann = connect("192.0.2.1", { userId: "ann" });
    expect([ann(3, "compute"), ann(12, "say")]).toEqual([1, 10]);
  });

  it("can apply to one type in addition to a limit for all types", () => {
    const [all, compute] = [few(5), few(2)];
    const connect = setUp({
      limits: [
        { limiter: all, key: perUserKey },
        { limiter: ({ type }) => (type === "compute" ? compute : undefined), key: perUserKey },
      ],
    });
    const ann = connect("192.0.2.1", { userId: "ann" });
    expect([ann(4, "compute"), ann(9, "say")]).toEqual([2, 3]);
  });

  it("can be per room, shared by its members", () => {
    const connect = setUp({ limits: { limiter: few(3), key: ({ data, id }) => `room:${data?.room ?? id}` } });
    const [ann, ben] = [connect("192.0.2.1", { room: "lobby" }), connect("192.0.2.2", { room: "lobby" })];
    const eve = connect("192.0.2.3", { room: "attic" });
    expect([ann(2), ben(2), eve(2)]).toEqual([2, 1, 2]);
  });

  it("can combine several levels, charged all or none", async () => {
    const [everybody, user] = [few(100), combine([few(3), few(50)])];
    const connect = setUp({
      limits: [
        { limiter: everybody, key: () => "everybody" },
        { limiter: user, key: perUserKey },
      ],
    });
    const ann = connect("192.0.2.1", { userId: "ann" });
    expect(ann(20)).toBe(3);
    expect((await everybody.peek("everybody")).remaining).toBe(97);
  });
});
