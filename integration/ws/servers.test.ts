/** The guard on every server with real clients: the same frames must have the same results. */
import { beforeAll, describe, expect, it } from "vitest";
import { type RedisServer, startRedis } from "../../test/servers/redis-server.js";
import { until } from "../../test/servers/until.js";
import { type Client, kinds, type Server, start } from "./servers.ts";

let redis: RedisServer;
beforeAll(async () => {
  redis = await startRedis();
  return () => redis.stop();
});

/** Waits until the server has handled or rejected this many frames. */
async function processed(server: Server, frames: number): Promise<Awaited<ReturnType<Server["journal"]>>> {
  let journal = await server.journal();
  await until(`${frames} frames`, async () => {
    journal = await server.journal();
    const { handled, exceeded, invalid } = journal;
    const seen = handled.length + exceeded.length + invalid;
    return seen >= frames ? undefined : `${seen}`;
  });
  return journal;
}

/** Retries to connect until there is a place: a server notices a disconnect a moment later. */
async function connectWhenFree(server: Server, user?: string): Promise<Client> {
  const clients: Client[] = [];
  await until("a connection", () => server.connect(user).then((client) => void clients.push(client), String));
  return clients[0] as Client;
}

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

describe.each(kinds)("%s", (kind) => {
  const stores =
    kind === "ws" || kind === "bun" ? (["memory", "late", "redis"] as const) : (["memory", "late"] as const);

  describe.each(stores)("8 valid and 5 invalid frames at a capacity of 3, %s", (store) => {
    const flood = async (onExceeded: "send" | "close" | "custom") => {
      await redis.call("FLUSHALL");
      const server = await start(kind, { onExceeded, store, throwing: true }, redis.url);
      const client = await server.connect("ann");
      for (const n of range(1, 8)) client.sendMessage(n);
      for (let n = 0; n < 5; n++) client.sendInvalid();
      return { server, client };
    };

    it("with send: 3 handled, 10 reported, one notice", async () => {
      const { server, client } = await flood("send");
      const { handled, exceeded, invalid, errors } = await processed(server, 13);
      expect(handled).toEqual([1, 2, 3]);
      expect(exceeded.map(({ type, action, observed, limit }) => [type, action, observed, limit])).toEqual(
        Array(10).fill(["rate", "send", 1, 3]),
      );
      expect(invalid).toBe(0);
      expect(errors).toEqual(Array(10).fill("Error: of the listener"));
      await until("a notice", async () => (client.notices.length > 0 ? undefined : "none"));
      expect(client.notices).toHaveLength(1);
      expect(client.notices[0]).toMatchObject({
        code: "RESOURCE_EXHAUSTED",
        retryable: true,
        retryAfterMs: exceeded[0]?.retryAfterMs,
      });
    });

    it("with close: 3 handled, one reported, code 1013", async () => {
      const { server, client } = await flood("close");
      const code = await client.closed;
      if (kind === "socket.io") expect(code).toBe("transport close");
      // Deno loses the close code while frames of the client are unread.
      else if (kind === "deno") expect([1013, 1006]).toContain(code);
      else expect(code).toBe(1013);
      const { handled, exceeded } = await server.journal();
      expect(handled).toEqual([1, 2, 3]);
      expect(exceeded).toHaveLength(1);
      expect(client.notices).toEqual([]);
    });

    it("with custom: 3 handled, 10 reported, nothing sent", async () => {
      const { server, client } = await flood("custom");
      const { handled, exceeded } = await processed(server, 13);
      expect(handled).toEqual([1, 2, 3]);
      expect(exceeded.map(({ action }) => action)).toEqual(Array(10).fill("custom"));
      expect(client.notices).toEqual([]);
    });
  });

  describe("frame order", () => {
    // The connection's own bucket holds 100, and joining on Socket.IO is charged to it.
    it.each(stores)("is kept for 90 frames at once, %s", async (store) => {
      await redis.call("FLUSHALL");
      const server = await start(kind, { store, capacity: 1000 }, redis.url);
      const clients = [await server.connect("ann"), await server.connect("ben")];
      for (const n of range(1, 90)) for (const [i, client] of clients.entries()) client.sendMessage(n + 1000 * i);
      const { handled } = await processed(server, 180);
      expect(handled.filter((n) => n <= 1000)).toEqual(range(1, 90));
      expect(handled.filter((n) => n > 1000)).toEqual(range(1001, 1090));
    });

    it("does not make a connection wait for a slow one", async () => {
      const server = await start(kind, { store: "late", capacity: 10 });
      const slow = await server.connect("slow");
      const ann = await server.connect("ann");
      for (const n of range(1, 3)) slow.sendMessage(n);
      for (const n of range(11, 13)) ann.sendMessage(n);
      expect((await processed(server, 3)).handled).toEqual([11, 12, 13]);
      await server.release();
      expect((await processed(server, 6)).handled).toEqual([11, 12, 13, 1, 2, 3]);
    });

    it("ends with a close: later decisions are dropped", async () => {
      const server = await start(kind, { store: "late", capacity: 10 });
      const slow = await server.connect("slow");
      const ann = await server.connect("ann");
      for (const n of range(1, 3)) slow.sendMessage(n);
      slow.close();
      await until("the close", async () => {
        const { open } = await server.journal();
        return open === 1 ? undefined : `${open} open`;
      });
      await server.release();
      ann.sendMessage(11);
      const { handled, exceeded, errors } = await processed(server, 1);
      expect({ handled, exceeded, errors }).toEqual({ handled: [11], exceeded: [], errors: [] });
    });
  });

  describe("a close", () => {
    it("follows closeAfter denied frames", async () => {
      const server = await start(kind, { more: { closeAfter: 4 } });
      const client = await server.connect();
      for (const n of range(1, 20)) client.sendMessage(n);
      const code = await client.closed;
      if (kind === "deno") expect([1013, 1006]).toContain(code);
      else expect(code).toBe(kind === "socket.io" ? "transport close" : 1013);
      const { handled, exceeded } = await server.journal();
      expect(handled).toEqual([1, 2, 3]);
      expect(exceeded.map(({ action }) => action)).toEqual(["send", "send", "send", "close"]);
    });

    it("has the ban code", async () => {
      const server = await start(kind, { onExceeded: "ban" });
      const client = await server.connect();
      for (const n of range(1, 4)) client.sendMessage(n);
      expect(await client.closed).toBe(kind === "socket.io" ? "io server disconnect" : 1008);
      expect((await server.journal()).handled).toEqual([1, 2, 3]);
    });

    if (kind === "socket.io") return;
    it("has the code 1009 for a frame of too many bytes", async () => {
      const server = await start(kind, { onExceeded: "close", capacity: 10, more: { maxBytes: 60 } });
      const client = await server.connect();
      const frame = (letters: number) => JSON.stringify({ type: "say", n: 1, text: "\u00fc".repeat(letters) });
      expect(new TextEncoder().encode(frame(15))).toHaveLength(60);
      client.send(frame(15));
      client.send(frame(16));
      expect(await client.closed).toBe(1009);
      const { handled, exceeded } = await server.journal();
      expect(handled).toEqual([1]);
      expect(exceeded).toMatchObject([{ type: "payload", observed: 62, limit: 60, action: "close" }]);
    });
  });

  describe("a notice", () => {
    it("has the exact wait, after which a frame is allowed", async () => {
      const server = await start(kind, { capacity: 1, rate: "1/2s" });
      const client = await server.connect("ann");
      client.sendMessage(1);
      client.sendMessage(2);
      const { exceeded } = await processed(server, 2);
      await until("a notice", async () => (client.notices.length > 0 ? undefined : "none"));
      const { retryAfterMs = 0 } = client.notices[0] ?? {};
      expect(retryAfterMs).toBe(exceeded[0]?.retryAfterMs);
      expect(retryAfterMs).toBeGreaterThan(0);
      expect(retryAfterMs).toBeLessThanOrEqual(2000);
      // A timer may be early by less than one millisecond.
      await new Promise((resolve) => setTimeout(resolve, retryAfterMs + 1));
      client.sendMessage(3);
      expect((await processed(server, 3)).handled).toEqual([1, 3]);
    });

    it("is sent for invalid frames, which are charged", async () => {
      const server = await start(kind, {});
      const client = await server.connect();
      for (const _ of range(1, 3)) client.sendInvalid();
      client.sendMessage(1);
      const { handled, exceeded, invalid } = await processed(server, 4);
      expect({ handled, invalid, denied: exceeded.length }).toEqual({ handled: [], invalid: 3, denied: 1 });
      await until("notices", async () => (client.notices.length === 2 ? undefined : String(client.notices.length)));
      expect(client.notices.map(({ code }) => code)).toEqual(["INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"]);
    });
  });

  describe("a connection", () => {
    it("is rejected with 429 if the address connects too often", async () => {
      const server = await start(kind, { upgrades: { capacity: 2, rate: "1/h" } });
      await server.connect();
      await server.connect();
      const rejection: Error & { headers?: Record<string, string> } = await server.connect().then(
        () => expect.unreachable("admitted"),
        (error) => error,
      );
      expect(rejection.message).toBe("429");
      if (kind !== "socket.io") expect(Number(rejection.headers?.["retry-after"])).toBeGreaterThan(1000);
      expect((await server.journal()).exceeded).toMatchObject([
        { type: "connections", limit: 2, key: expect.any(String) },
      ]);
    });

    it.each([
      ["address", { maxOpenPerAddress: 2 }, undefined],
      ["user", { maxOpenPerUser: 2 }, "ann"],
    ])("is rejected with 429 if the %s has too many open, until one closes", async (_, more, user) => {
      const server = await start(kind, { more });
      const first = await server.connect(user);
      const second = await server.connect(user);
      await expect(server.connect(user)).rejects.toThrow("429");
      if (user) await server.connect("ben");
      expect((await server.journal()).exceeded).toMatchObject([{ type: "connections", observed: 3, limit: 2 }]);
      for (const gone of [first, second]) {
        gone.close();
        await gone.closed;
      }
      for (let n = 0; n < 2; n++) await connectWhenFree(server, user);
      await expect(server.connect(user)).rejects.toThrow("429");
    });
  });

  it("releases the counts of clients that disconnect during the upgrade", async () => {
    const upgrades = { capacity: 1000, rate: "1000/s", late: true };
    const server = await start(kind, { upgrades, more: { maxOpenPerAddress: 3 } });
    for (let n = 0; n < 5; n++) {
      await server.abortUpgrade();
      // workerd keeps a socket open whose client reset it before the upgrade, and never emits its close.
      await server.abortUpgrade(kind === "workerd" ? "close" : "reset");
    }
    for (let n = 0; n < 3; n++) await connectWhenFree(server);
    await expect(server.connect()).rejects.toThrow("429");
  });

  it("survives clients that reset the socket when they are rejected", async () => {
    const server = await start(kind, { upgrades: { capacity: 1, rate: "1/h" } });
    const client = await server.connect();
    for (let n = 0; n < 20; n++) await server.abortUpgrade("reset");
    // The server still rejects connections.
    await expect(server.connect()).rejects.toThrow("429");
    client.sendMessage(1);
    // The journal also has the rejected upgrades, so a count of its entries does not tell when the frame was handled.
    await until("the frame", async () => ((await server.journal()).handled.length > 0 ? undefined : "not handled"));
    expect((await server.journal()).handled).toEqual([1]);
  });

  it("uses a user from the login on, and releases the count of the address", async () => {
    const server = await start(kind, { capacity: 2, more: { maxOpenPerAddress: 1 } });
    for (const userId of ["ann", "ben"]) {
      const client = await connectWhenFree(server);
      const { handled } = await server.journal();
      client.sendMessage(1, { userId });
      await until("the login", async () => {
        const { handled: now } = await server.journal();
        return now.length > handled.length ? undefined : "not yet";
      });
      for (const n of [2, 3, 4]) client.sendMessage(n);
      await until("a denial", async () => {
        const { exceeded } = await server.journal();
        return exceeded.some(({ key }) => key === `public:user:${userId}`) ? undefined : "none";
      });
      client.close();
      await client.closed;
    }
  });

  if (kind === "bun") {
    it.each(["null", "text"])("releases the count if data can't be that of a socket: %s", async (data) => {
      const server = await start(kind, { more: { maxOpenPerAddress: 1 } });
      for (let n = 0; n < 3; n++) {
        if (data === "text") await expect(server.connect(`ann&data=${data}`)).rejects.toThrow("500");
        else (await connectWhenFree(server, `ann&data=${data}`)).close();
      }
      await connectWhenFree(server);
    });
  }

  // Deno and workerd reply to pings without an event.
  if (kind === "deno" || kind === "workerd") return;
  it("charges pings to a separate bucket", async () => {
    const server = await start(kind, { capacity: 3, more: { closeAfter: 20 } });
    const client = await server.connect();
    for (const _ of range(1, 25)) client.ping();
    client.sendMessage(1);
    const { handled, exceeded } = await processed(server, 16);
    expect(handled).toEqual([1]);
    expect(exceeded).toHaveLength(15);
    for (const _ of range(1, 10)) client.ping();
    expect(await client.closed).toBe(kind === "socket.io" ? "transport close" : 1013);
  });
});
