/** The guard on every server, with real clients: the same frames have to come to the same. */
import { beforeAll, describe, expect, it } from "vitest";
import { type RedisServer, startRedis } from "../../test/servers/redis-server.js";
import { until } from "../../test/servers/until.js";
import { type Client, kinds, type Server, start } from "./servers.ts";

let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis();
  return () => redis.stop();
});

/** Waits until the server has dealt with so many frames, one way or another. */
async function settled(server: Server, frames: number): Promise<Awaited<ReturnType<Server["journal"]>>> {
  let journal = await server.journal();
  await until(`${frames} frames`, async () => {
    journal = await server.journal();
    const { handled, hooks, invalid } = journal;
    const seen = handled.length + hooks.length + invalid;
    return seen >= frames ? undefined : `${seen}`;
  });
  return journal;
}

/** Comes in when there is a place: a server hears a moment later of one that is gone. */
async function comeIn(server: Server, user?: string): Promise<Client> {
  const clients: Client[] = [];
  await until("a place", () => server.connect(user).then((client) => void clients.push(client), String));
  return clients[0] as Client;
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

describe.each(kinds)("%s", (kind) => {
  const stores =
    kind === "ws" || kind === "bun" ? (["memory", "late", "redis"] as const) : (["memory", "late"] as const);

  describe.each(stores)("8 good and 5 bad frames at a capacity of 3, %s", (store) => {
    const flood = async (onExceeded: "send" | "close" | "custom") => {
      await redis.call("FLUSHALL");
      const server = await start(kind, { onExceeded, store, throwing: true }, redis.url);
      const client = await server.connect("ann");
      for (const n of range(1, 8)) client.say(n);
      for (let n = 0; n < 5; n++) client.junk();
      return { server, client };
    };

    it("send: 3 handled, 10 hooks, one notice", async () => {
      const { server, client } = await flood("send");
      const { handled, hooks, invalid, errors } = await settled(server, 13);
      expect(handled).toEqual([1, 2, 3]);
      expect(hooks.map(({ type, action, observed, limit }) => [type, action, observed, limit])).toEqual(
        Array(10).fill(["rate", "send", 1, 3]),
      );
      expect(invalid).toBe(0);
      expect(errors).toEqual(Array(10).fill("Error: of the hook"));
      await until("a notice", async () => (client.told.length > 0 ? undefined : "none"));
      expect(client.told).toHaveLength(1);
      expect(client.told[0]).toMatchObject({
        code: "RESOURCE_EXHAUSTED",
        retryable: true,
        retryAfterMs: hooks[0]?.retryAfterMs,
      });
    });

    it("close: 3 handled, one hook, 1013", async () => {
      const { server, client } = await flood("close");
      const code = await client.closed;
      if (kind === "socket.io") expect(code).toBe("transport close");
      // Deno loses the code of a close while frames of the client are unread.
      else if (kind === "deno") expect([1013, 1006]).toContain(code);
      else expect(code).toBe(1013);
      const { handled, hooks } = await server.journal();
      expect(handled).toEqual([1, 2, 3]);
      expect(hooks).toHaveLength(1);
      expect(client.told).toEqual([]);
    });

    it("custom: 3 handled, 10 hooks, nothing sent", async () => {
      const { server, client } = await flood("custom");
      const { handled, hooks } = await settled(server, 13);
      expect(handled).toEqual([1, 2, 3]);
      expect(hooks.map(({ action }) => action)).toEqual(Array(10).fill("custom"));
      expect(client.told).toEqual([]);
    });
  });

  describe("order", () => {
    // The connection's own bucket holds 100, and Socket.IO has taken some of it to join.
    it.each(stores)("90 frames at once are handled in order, %s", async (store) => {
      await redis.call("FLUSHALL");
      const server = await start(kind, { store, capacity: 1000 }, redis.url);
      const clients = [await server.connect("ann"), await server.connect("ben")];
      for (const n of range(1, 90)) for (const [i, client] of clients.entries()) client.say(n + 1000 * i);
      const { handled } = await settled(server, 180);
      expect(handled.filter((n) => n <= 1000)).toEqual(range(1, 90));
      expect(handled.filter((n) => n > 1000)).toEqual(range(1001, 1090));
    });

    it("a slow connection never delays another, and is handled when it may be", async () => {
      const server = await start(kind, { store: "late", capacity: 10 });
      const slow = await server.connect("slow");
      const ann = await server.connect("ann");
      for (const n of range(1, 3)) slow.say(n);
      for (const n of range(11, 13)) ann.say(n);
      expect((await settled(server, 3)).handled).toEqual([11, 12, 13]);
      await server.release();
      expect((await settled(server, 6)).handled).toEqual([11, 12, 13, 1, 2, 3]);
    });

    it("nothing is handled after a close", async () => {
      const server = await start(kind, { store: "late", capacity: 10 });
      const slow = await server.connect("slow");
      const ann = await server.connect("ann");
      for (const n of range(1, 3)) slow.say(n);
      slow.close();
      await until("the close", async () => {
        const { open } = await server.journal();
        return open === 1 ? undefined : `${open} open`;
      });
      await server.release();
      ann.say(11);
      const { handled, hooks, errors } = await settled(server, 1);
      expect({ handled, hooks, errors }).toEqual({ handled: [11], hooks: [], errors: [] });
    });
  });

  describe("closing", () => {
    it("after so many denied frames", async () => {
      const server = await start(kind, { more: { closeAfter: 4 } });
      const client = await server.connect();
      for (const n of range(1, 20)) client.say(n);
      const code = await client.closed;
      if (kind === "deno") expect([1013, 1006]).toContain(code);
      else expect(code).toBe(kind === "socket.io" ? "transport close" : 1013);
      const { handled, hooks } = await server.journal();
      expect(handled).toEqual([1, 2, 3]);
      expect(hooks.map(({ action }) => action)).toEqual(["send", "send", "send", "close"]);
    });

    it("for good", async () => {
      const server = await start(kind, { onExceeded: "ban" });
      const client = await server.connect();
      for (const n of range(1, 4)) client.say(n);
      expect(await client.closed).toBe(kind === "socket.io" ? "io server disconnect" : 1008);
      expect((await server.journal()).handled).toEqual([1, 2, 3]);
    });

    if (kind === "socket.io") return;
    it("a frame that is too large, counted in bytes: 1009", async () => {
      const server = await start(kind, { onExceeded: "close", capacity: 10, more: { maxBytes: 60 } });
      const client = await server.connect();
      const frame = (letters: number) => JSON.stringify({ type: "say", n: 1, text: "\u00fc".repeat(letters) });
      expect(new TextEncoder().encode(frame(15))).toHaveLength(60);
      client.send(frame(15));
      client.send(frame(16));
      expect(await client.closed).toBe(1009);
      const { handled, hooks } = await server.journal();
      expect(handled).toEqual([1]);
      expect(hooks).toMatchObject([{ type: "payload", observed: 62, limit: 60, action: "close" }]);
    });
  });

  describe("telling", () => {
    it("the exact time, after which it is allowed", async () => {
      const server = await start(kind, { capacity: 1, rate: "1/2s" });
      const client = await server.connect("ann");
      client.say(1);
      client.say(2);
      const { hooks } = await settled(server, 2);
      await until("a notice", async () => (client.told.length > 0 ? undefined : "none"));
      const { retryAfterMs = 0 } = client.told[0] ?? {};
      expect(retryAfterMs).toBe(hooks[0]?.retryAfterMs);
      expect(retryAfterMs).toBeGreaterThan(0);
      expect(retryAfterMs).toBeLessThanOrEqual(2000);
      // A timer may be early by less than one millisecond.
      await new Promise((resolve) => setTimeout(resolve, retryAfterMs + 1));
      client.say(3);
      expect((await settled(server, 3)).handled).toEqual([1, 3]);
    });

    it("that a frame can't be read, which was paid for all the same", async () => {
      const server = await start(kind, {});
      const client = await server.connect();
      for (const _ of range(1, 3)) client.junk();
      client.say(1);
      const { handled, hooks, invalid } = await settled(server, 4);
      expect({ handled, invalid, denied: hooks.length }).toEqual({ handled: [], invalid: 3, denied: 1 });
      await until("notices", async () => (client.told.length === 2 ? undefined : String(client.told.length)));
      expect(client.told.map(({ code }) => code)).toEqual(["INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"]);
    });
  });

  describe("connecting", () => {
    it("more often than an address may: 429", async () => {
      const server = await start(kind, { upgrades: { capacity: 2, rate: "1/h" } });
      await server.connect();
      await server.connect();
      const refusal: Error & { headers?: Record<string, string> } = await server.connect().then(
        () => expect.unreachable("let in"),
        (error) => error,
      );
      expect(refusal.message).toBe("429");
      if (kind !== "socket.io") expect(Number(refusal.headers?.["retry-after"])).toBeGreaterThan(1000);
      expect((await server.journal()).hooks).toMatchObject([
        { type: "connections", limit: 2, key: expect.any(String) },
      ]);
    });

    it.each([
      ["address", { maxOpenPerAddress: 2 }, undefined],
      ["user", { maxOpenPerUser: 2 }, "ann"],
    ])("more at once than one %s may, until one is closed", async (_, more, user) => {
      const server = await start(kind, { more });
      const first = await server.connect(user);
      const second = await server.connect(user);
      await expect(server.connect(user)).rejects.toThrow("429");
      if (user) await server.connect("ben");
      expect((await server.journal()).hooks).toMatchObject([{ type: "connections", observed: 3, limit: 2 }]);
      for (const gone of [first, second]) {
        gone.close();
        await gone.closed;
      }
      for (let n = 0; n < 2; n++) await comeIn(server, user);
      await expect(server.connect(user)).rejects.toThrow("429");
    });
  });

  it("gives back the places of those who leave in the middle of the upgrade", async () => {
    const upgrades = { capacity: 1000, rate: "1000/s", late: true };
    const server = await start(kind, { upgrades, more: { maxOpenPerAddress: 3 } });
    for (let n = 0; n < 5; n++) {
      await server.leave();
      // workerd takes a socket for open whose client broke off before the upgrade, and never hears of its end.
      await server.leave(kind === "workerd" ? "gone" : "reset");
    }
    for (let n = 0; n < 3; n++) await comeIn(server);
    await expect(server.connect()).rejects.toThrow("429");
  });

  it("outlives those who break off when they are refused", async () => {
    const server = await start(kind, { upgrades: { capacity: 1, rate: "1/h" } });
    const client = await server.connect();
    for (let n = 0; n < 20; n++) await server.leave("reset");
    // The refusals of all that came to be heard were told.
    await expect(server.connect()).rejects.toThrow("429");
    client.say(1);
    expect((await settled(server, 1)).handled).toEqual([1]);
  });

  it("knows who somebody is from the moment that is proved, and gives the place back all the same", async () => {
    const server = await start(kind, { capacity: 2, more: { maxOpenPerAddress: 1 } });
    for (const userId of ["ann", "ben"]) {
      const client = await comeIn(server);
      const { handled } = await server.journal();
      client.say(1, { userId });
      await until("the login", async () => {
        const { handled: now } = await server.journal();
        return now.length > handled.length ? undefined : "not yet";
      });
      for (const n of [2, 3, 4]) client.say(n);
      await until("a denial", async () => {
        const { hooks } = await server.journal();
        return hooks.some(({ key }) => key === `public:user:${userId}`) ? undefined : "none";
      });
      client.close();
      await client.closed;
    }
  });

  if (kind === "bun") {
    it.each(["null", "text"])("keeps no place for data that can't be that of a socket: %s", async (data) => {
      const server = await start(kind, { more: { maxOpenPerAddress: 1 } });
      for (let n = 0; n < 3; n++) {
        if (data === "text") await expect(server.connect(`ann&data=${data}`)).rejects.toThrow("500");
        else (await comeIn(server, `ann&data=${data}`)).close();
      }
      await comeIn(server);
    });
  }

  // Deno and workerd answer pings themselves and tell nobody.
  if (kind === "deno" || kind === "workerd") return;
  it("pings have a bucket of their own", async () => {
    const server = await start(kind, { capacity: 3, more: { closeAfter: 20 } });
    const client = await server.connect();
    for (const _ of range(1, 25)) client.ping();
    client.say(1);
    const { handled, hooks } = await settled(server, 16);
    expect(handled).toEqual([1]);
    expect(hooks).toHaveLength(15);
    for (const _ of range(1, 10)) client.ping();
    expect(await client.closed).toBe(kind === "socket.io" ? "transport close" : 1013);
  });
});
