/** `guardSocketIo`, beyond what it has in common with other servers. */
import { type EventEmitter, once } from "node:events";
import { createServer, get, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { leakyBucket, memoryRateLimiter } from "sluice";
import { guardSocketIo, type SocketIoOptions } from "sluice/socket.io";
import type { LimitExceeded } from "sluice/ws";
import { Server, type ServerOptions, type Socket } from "socket.io";
import { io, type ManagerOptions, type SocketOptions } from "socket.io-client";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { WebSocket } from "ws";
import { until } from "../../test/servers/until.js";

/** A guarded server, and a way to connect to it. */
async function serve(options: SocketIoOptions<unknown, IncomingMessage>, settings: Partial<ServerOptions> = {}) {
  const server = createServer();
  const sockets = new Server(server, settings);
  const guard = guardSocketIo<unknown, IncomingMessage>(sockets, options);
  const heard: unknown[] = [];
  const listen = (socket: Socket) => {
    socket.on("say", (n) => heard.push(n));
    socket.on("ask", (n, answer) => answer(n + 1));
  };
  sockets.on("connection", listen);
  sockets.of("/news").on("connection", listen);
  sockets.of(/^\/room-\d+$/).on("connection", listen);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  onTestFinished(async () => {
    await sockets.close();
  });
  const connect = async (more: Partial<ManagerOptions & SocketOptions> = {}, namespace = "/") => {
    const client = io(url + namespace, { reconnection: false, forceNew: true, ...more });
    onTestFinished(() => void client.disconnect());
    await new Promise<void>((resolve, reject) => {
      client.once("connect", resolve);
      client.once("connect_error", (error) => reject(error));
    });
    return client;
  };
  return { guard, heard, connect, url, server, sockets };
}

const few = (capacity: number) => memoryRateLimiter({ capacity, tokensPerSecond: "1/h" });
const ways: { transports: ("polling" | "websocket")[] }[] = [
  { transports: ["polling"] },
  { transports: ["websocket"] },
  { transports: ["polling", "websocket"] },
];

describe("guardSocketIo", () => {
  it.each(ways)("refuses connections over $transports with 429", async (way) => {
    const { connect, url } = await serve({ upgrades: few(2) });
    await connect(way);
    await connect(way);
    await expect(connect(way)).rejects.toThrow();
    const response = await fetch(`${url}/socket.io/?EIO=4&transport=polling`);
    expect(response.status).toBe(429);
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(1000);
    expect(await response.json()).toMatchObject({ status: 429 });
  });

  it.each(ways)("counts connections over $transports, and gives each back once", async (way) => {
    const { connect, sockets } = await serve({ maxOpenPerAddress: 2 });
    for (let round = 0; round < 3; round++) {
      const clients = [await connect(way), await connect(way)];
      await expect(connect(way)).rejects.toThrow();
      for (const client of clients) client.disconnect();
      await until("all are gone", async () => {
        const { clientsCount } = sockets.engine;
        return clientsCount === 0 ? undefined : `${clientsCount} left`;
      });
    }
  });

  describe("a session id in an upgrade (issue 13)", () => {
    /** A session over polling, and its id. */
    const poll = async (url: string, sid = ""): Promise<{ status: number; sid: string }> => {
      const response = await fetch(`${url}/socket.io/?EIO=4&transport=polling${sid && `&sid=${sid}`}`);
      const text = await response.text();
      return { status: response.status, sid: response.ok && !sid ? JSON.parse(text.slice(1)).sid : sid };
    };
    /** Opens a WebSocket that never answers a close; the status of the answer. */
    const upgrade = async (url: string, sid: string): Promise<number> => {
      const request = get(`${url}/socket.io/?EIO=4&transport=websocket&sid=${sid}`, {
        agent: false,
        headers: {
          Connection: "Upgrade",
          Upgrade: "websocket",
          "Sec-WebSocket-Version": "13",
          "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        },
      });
      onTestFinished(() => void request.socket?.destroy());
      const [response] = await Promise.race([once(request, "upgrade"), once(request, "response")]);
      if (response.statusCode !== 101) response.resume();
      return response.statusCode;
    };
    const count = (statuses: number[], status: number) => statuses.filter((one) => one === status).length;
    const openOf = (server: Awaited<ReturnType<typeof serve>>["server"]) =>
      new Promise<number>((resolve) => server.getConnections((_, open) => resolve(open)));

    it("opens one WebSocket for its session, and the others count as connections", async () => {
      const { url, server } = await serve({ maxOpenPerAddress: 2 });
      const { sid } = await poll(url);
      const statuses: number[] = [];
      for (let n = 0; n < 10; n++) {
        statuses.push(...(await Promise.all(Array.from({ length: 50 }, () => upgrade(url, sid)))));
      }
      // One in place of the polling session, and one in the second place.
      expect([count(statuses, 101), count(statuses, 429)]).toEqual([2, 498]);
      // The polling connection is idle and may still be there.
      await until("refused ones are closed", async () => {
        const open = await openOf(server);
        return open <= 3 ? undefined : `${open} open`;
      });
      expect((await poll(url)).status).toBe(429);
    });

    it("counts upgrades of one session by their rate, also one after the other", async () => {
      const { url } = await serve({ upgrades: few(3) });
      const { sid } = await poll(url);
      const statuses: number[] = [];
      for (let n = 0; n < 6; n++) statuses.push(await upgrade(url, sid));
      expect(statuses).toEqual([101, 101, 101, 429, 429, 429]);
    });

    it("counts requests for sessions that do not exist", async () => {
      const { url } = await serve({ upgrades: few(4) });
      const statuses: number[] = [];
      for (let n = 0; n < 4; n++) statuses.push((await poll(url, `made-up-${n}`)).status);
      for (let n = 0; n < 2; n++) statuses.push(await upgrade(url, `made-up-${n}`));
      expect(statuses).toEqual([400, 400, 400, 400, 429, 429]);
    });

    it("keeps the place of a session until its socket is closed", async () => {
      const { url, sockets } = await serve({ maxOpenPerAddress: 1 });
      const sessions: { close(discard: boolean): unknown }[] = [];
      sockets.engine.on("connection", (session: { close(discard: boolean): unknown }) => sessions.push(session));
      const { sid } = await poll(url);
      expect(await upgrade(url, sid)).toBe(101);
      sessions[0]?.close(true);
      await until("the session is gone", async () => (sockets.engine.clientsCount === 0 ? undefined : "it is there"));
      // Its client reads nothing, so that the socket below is still open.
      expect((await poll(url)).status).toBe(429);
    });
  });

  it.each(["close", "ban"] as const)(
    "destroys the socket of a client that ignores a %s (issue 13)",
    async (onExceeded) => {
      const { url, server, sockets } = await serve({ onExceeded, connection: { capacity: 3, tokensPerSecond: "1/h" } });
      const client = new WebSocket(`${url.replace("http", "ws")}/socket.io/?EIO=4&transport=websocket`);
      onTestFinished(() => client.terminate());
      client.on("error", () => {});
      await once(client, "open");
      client.send("40");
      await until("it has joined", async () => (sockets.of("/").sockets.size === 1 ? undefined : "not yet"));
      for (let n = 0; n < 5; n++) client.send('42["say",1]');
      client.pause();
      const start = performance.now();
      await until("the socket is gone", async () => {
        const open = await new Promise<number>((resolve) => server.getConnections((_, open) => resolve(open)));
        return open === 0 ? undefined : `${open} open`;
      });
      expect(performance.now() - start).toBeLessThan(3000);
    },
  );

  it.each(["polling", "websocket"] as const)(
    "gives a count back when %s does not become a connection",
    async (name) => {
      const allowRequest = vi.fn((_: IncomingMessage, answer: (error: string | null, ok: boolean) => void) =>
        answer("not you", false),
      );
      const { connect } = await serve({ maxOpenPerAddress: 1 }, { allowRequest });
      for (let n = 0; n < 3; n++) await expect(connect({ transports: [name] })).rejects.toThrow();
      await until("all three asked for", async () =>
        allowRequest.mock.calls.length >= 3 ? undefined : `${allowRequest.mock.calls.length}`,
      );
    },
  );

  it("has one bucket for all namespaces of a client", async () => {
    // Joining a namespace costs as much as an event.
    const { connect, heard } = await serve({ connection: { capacity: 6, tokensPerSecond: "1/h" } });
    const client = await connect();
    const others = ["/news", "/room-1"].map((namespace) => client.io.socket(namespace));
    await Promise.all(others.map((other) => new Promise<void>((resolve) => other.once("connect", resolve))));
    const told: unknown[] = [];
    for (const [i, socket] of [client, ...others].entries()) {
      socket.on("limit_exceeded", (notice) => told.push([i, notice.code]));
      for (let n = 0; n < 2; n++) socket.emit("say", n);
    }
    await until("a notice", async () => (told.length > 0 ? undefined : "none"));
    expect(heard).toHaveLength(3);
    // It is told where it was said.
    expect(told).toEqual([[1, "RESOURCE_EXHAUSTED"]]);
  });

  it("hands over arguments and answers, in order, with the delay of a queue", async () => {
    const limiter = memoryRateLimiter(leakyBucket("20/s", { burst: 10 }));
    const { connect, heard } = await serve({ limits: { limiter } });
    const client = await connect();
    const start = performance.now();
    for (let n = 0; n < 4; n++) client.emit("say", n);
    expect(await client.emitWithAck("ask", 41)).toBe(42);
    await until("the last", async () => (heard.length === 4 ? undefined : `${heard.length}`));
    expect(heard).toEqual([0, 1, 2, 3]);
    expect(performance.now() - start).toBeGreaterThan(145);
  });

  it("knows the events that are listened to, unless it is told which there are", async () => {
    const invalid: string[] = [];
    const onInvalid = ({ type }: { type: string }) => invalid.push(type);
    const { connect, heard } = await serve({ onInvalid });
    const client = await connect();
    for (const name of ["nobody", "__proto__", "constructor", "toString"]) client.emit(name, 1);
    client.emit("say", 1);
    await until("the good one", async () => (heard.length > 0 ? undefined : "none"));
    expect(invalid).toEqual(Array(4).fill("!invalid"));
    const listed = await serve({ types: ["ask"], onInvalid });
    const other = await listed.connect();
    other.emit("say", 1);
    expect(await other.emitWithAck("ask", 1)).toBe(2);
    expect(listed.heard).toEqual([]);
  });

  it("lets nobody around by an empty session", async () => {
    const { url } = await serve({ upgrades: few(2) });
    const statuses: number[] = [];
    for (let n = 0; n < 4; n++) statuses.push((await fetch(`${url}/socket.io/?EIO=4&transport=polling&sid=`)).status);
    expect(statuses).toEqual([200, 200, 429, 429]);
  });

  it("gives back the places of requests that are given up", async () => {
    const upgrades = memoryRateLimiter({ capacity: 100, tokensPerSecond: 100 });
    const asked: (() => void)[] = [];
    const consume = vi.spyOn(upgrades, "consume").mockImplementation(async (key, cost) => {
      await new Promise<void>((resolve) => asked.push(resolve));
      return upgrades.consumeSync(key, cost);
    });
    const { connect, url } = await serve({ upgrades, maxOpenPerAddress: 2 });
    for (let n = 1; n <= 3; n++) {
      const gone = new AbortController();
      const request = fetch(`${url}/socket.io/?EIO=4&transport=bogus`, { signal: gone.signal }).catch(() => {});
      await until("the question", async () => (asked.length === n ? undefined : "not yet"));
      gone.abort();
      await request;
      asked.at(-1)?.();
    }
    consume.mockRestore();
    for (let n = 0; n < 2; n++) await until("a place", () => connect().then(() => undefined, String));
  });

  it("guards a connection that was recovered", async () => {
    const connectionStateRecovery = { maxDisconnectionDuration: 60_000 };
    const { connect, heard, sockets } = await serve(
      { limits: { limiter: few(3), key: () => "all" } },
      { connectionStateRecovery },
    );
    const client = await connect({ reconnection: true, reconnectionDelay: 1 });
    // Something has to have come before a session can be recovered.
    sockets.emit("news");
    await new Promise<void>((resolve) => client.once("news", () => resolve()));
    for (let n = 0; n < 5; n++) client.emit("say", n);
    await until("three", async () => (heard.length === 3 ? undefined : `${heard.length}`));
    client.io.engine.close();
    await new Promise<void>((resolve) => client.once("connect", resolve));
    expect(client.recovered).toBe(true);
    const told = new Promise((resolve) => client.once("limit_exceeded", resolve));
    for (let n = 0; n < 20; n++) client.emit("say", n);
    await told;
    expect(heard).toHaveLength(3);
  });

  it("gives one bucket to all events that only onAny hears, which can't be kept from it", async () => {
    const keys: string[] = [];
    const { connect, sockets } = await serve({
      limits: { limiter: few(3) },
      onLimitExceeded: ({ key }) => keys.push(key),
    });
    const onAny = vi.fn();
    sockets.on("connection", (socket) => socket.onAny(onAny));
    const client = await connect();
    for (let n = 0; n < 20; n++) client.emit(`invented ${n}`);
    await until("the last", async () => (onAny.mock.calls.length === 20 ? undefined : `${onAny.mock.calls.length}`));
    expect(keys).toEqual(Array(17).fill("public:ip:127.0.0.1:*"));
  });

  it("counts those who join namespaces again and again", async () => {
    const hooks: LimitExceeded[] = [];
    const { connect, sockets } = await serve({
      connection: { capacity: 5, tokensPerSecond: "1/h" },
      onLimitExceeded: (info) => hooks.push(info),
    });
    const auth = vi.fn((_: unknown, next: (error?: Error) => void) => next(new Error("not you")));
    sockets.of("/secret").use(auth);
    const client = await connect();
    const gone = new Promise((resolve) => client.once("disconnect", resolve));
    const { engine } = client.io;
    let joins = 0;
    await until("it is closed", async () => {
      engine.write("0/secret,");
      joins++;
      return client.connected ? `${joins} joins` : undefined;
    });
    expect(await gone).toBe("transport close");
    // The first namespace and four more: nothing is read after the close.
    expect(auth).toHaveBeenCalledTimes(4);
    expect(hooks).toMatchObject([{ type: "rate", limit: 5, action: "close" }]);
  });

  it("knows the user that a middleware has put into socket.data", async () => {
    const keys: string[] = [];
    const { connect, sockets } = await serve({
      limits: { limiter: few(1) },
      onLimitExceeded: ({ key }) => keys.push(key),
    });
    sockets.use((socket, next) => {
      socket.data.userId = socket.handshake.auth.token;
      next();
    });
    const client = await connect({ auth: { token: "ann" } });
    for (let n = 0; n < 2; n++) client.emit("say", n);
    await until("a denial", async () => (keys.length > 0 ? undefined : "none"));
    expect(keys).toEqual(["public:user:ann:say"]);
  });

  it("puts what is known of a client where middleware finds it, and leaves alone what that has put there", async () => {
    const { connect, sockets } = await serve({ data: () => ({ userId: "of the request", plan: "free" }) });
    const seen: unknown[] = [];
    sockets.use((socket, next) => {
      seen.push({ ...socket.data });
      socket.data.userId = "of the middleware";
      next();
    });
    sockets.on("connection", (socket) => seen.push({ ...socket.data }));
    await connect();
    expect(seen).toEqual([
      { userId: "of the request", plan: "free" },
      { userId: "of the middleware", plan: "free" },
    ]);
  });

  it("counts no acknowledgements of what the server has asked", async () => {
    const onLimitExceeded = vi.fn();
    const { connect, sockets } = await serve({ connection: { capacity: 5, tokensPerSecond: "1/h" }, onLimitExceeded });
    const client = await connect();
    client.on("question", (answer) => answer("yes"));
    const [socket] = await sockets.fetchSockets();
    const answers = await Promise.all(
      Array.from({ length: 50 }, () =>
        sockets
          .in(socket?.id ?? "")
          .timeout(5000)
          .emitWithAck("question"),
      ),
    );
    expect(answers).toHaveLength(50);
    expect(onLimitExceeded).not.toHaveBeenCalled();
  });

  it("counts acknowledgements that nobody asked for, or that were told already", async () => {
    const hooks: LimitExceeded[] = [];
    const { connect, sockets, heard } = await serve({
      connection: { capacity: 5, tokensPerSecond: "1/h" },
      onLimitExceeded: (info) => hooks.push(info),
    });
    const client = await connect({ transports: ["websocket"] });
    const [socket] = await sockets.fetchSockets();
    const asked = sockets
      .in(socket?.id ?? "")
      .timeout(5000)
      .emitWithAck("question");
    await once(client as unknown as EventEmitter, "question");
    // One join and three of these ten fit, beside the first, which is free.
    for (let n = 0; n < 10; n++) client.io.engine.write('30["yes"]');
    expect(await asked).toEqual(["yes"]);
    for (const packet of ['37["x"]', '3["x"]']) client.io.engine.write(packet);
    await until("denials", async () => (hooks.length === 7 ? undefined : `${hooks.length}`));
    expect(hooks).toMatchObject(Array(7).fill({ type: "rate", limit: 5, action: "send" }));
    // Nobody is closed for being late with an answer.
    expect(client.connected).toBe(true);
    expect(heard).toEqual([]);
  });

  it("lets a client leave a namespace that has nothing left", async () => {
    const { connect, sockets } = await serve({ connection: { capacity: 2, tokensPerSecond: "1/h" } });
    const client = await connect({ transports: ["websocket"] });
    const news = client.io.socket("/news");
    await once(news as unknown as EventEmitter, "connect");
    news.disconnect();
    await until("it left", async () => {
      const { length } = await sockets.of("/news").fetchSockets();
      return length === 0 ? undefined : `${length}`;
    });
    expect(client.connected).toBe(true);
  });

  it("bans also where something follows what it bans for", async () => {
    const { connect } = await serve({ connection: { capacity: 2, tokensPerSecond: "1/h" }, onExceeded: "ban" });
    const client = await connect({ transports: ["websocket"] });
    const reason = new Promise((resolve) => client.once("disconnect", resolve));
    for (let n = 0; n < 3; n++) client.emit("say", n);
    for (let n = 0; n < 3; n++) client.io.engine.write("0/news,");
    expect(await reason).toBe("io server disconnect");
  });

  it("takes what is known of a client from the guard, also before it is connected and in namespaces to come", async () => {
    const { guard, connect, sockets } = await serve({});
    const seen: unknown[] = [];
    sockets.use((socket, next) => {
      socket.data.room = "lobby";
      guard.connection(socket).data = { userId: socket.handshake.auth.token };
      seen.push(guard.connection(socket).data);
      next();
    });
    const look = (socket: Socket) => seen.push({ ...socket.data }, guard.connection(socket).data);
    sockets.on("connection", look);
    sockets.of("/news").on("connection", (socket) => {
      look(socket);
      // What an application has of its own in one namespace is not in another.
      socket.data.room = "news";
    });
    const client = await connect({ auth: { token: "ann" } });
    await once(client.io.socket("/news") as unknown as EventEmitter, "connect");
    const inLobby = { userId: "ann", room: "lobby" };
    expect(seen.slice(0, 3)).toEqual(Array(3).fill(inLobby));
    expect(seen[3]).toEqual({ userId: "ann" });
    expect((await sockets.fetchSockets()).map(({ data }) => data)).toEqual([inLobby]);
  });

  it("tells who a client is to a namespace that it was joining meanwhile", async () => {
    const { guard, connect, sockets } = await serve({ data: () => ({ tenantId: "of the request" }) });
    const joining: (() => void)[] = [];
    sockets.of("/news").use((socket, next) => {
      socket.data.tenantId = "of the middleware";
      joining.push(next);
    });
    let held: Socket | undefined;
    sockets.on("connection", (socket) => {
      held = socket;
    });
    const client = await connect();
    const news = client.io.socket("/news");
    await until("it joins", async () => (joining.length === 1 ? undefined : "not yet"));
    guard.connection(held as Socket).data = { userId: "ann" };
    joining[0]?.();
    await once(news as unknown as EventEmitter, "connect");
    const [there] = await sockets.of("/news").fetchSockets();
    expect(there?.data).toEqual({ userId: "ann", tenantId: "of the middleware" });
  });

  it("tells middleware of namespaces that are told by a pattern what is known of a client, too", async () => {
    const { connect, sockets } = await serve({ data: () => ({ userId: "ann" }) });
    const seen: unknown[] = [];
    sockets.of(/^\/team-\d+$/).use((socket, next) => {
      seen.push({ ...socket.data });
      next();
    });
    await connect({}, "/team-1");
    expect(seen).toEqual([{ userId: "ann" }]);
  });

  it.each<[string, (url: string) => () => void]>([
    [
      "polling",
      (url) => {
        const gone = new AbortController();
        fetch(`${url}/socket.io/?EIO=4&transport=polling`, { signal: gone.signal }).catch(() => {});
        return () => gone.abort();
      },
    ],
    [
      "websocket",
      (url) => {
        const socket = new WebSocket(`${url.replace("http", "ws")}/socket.io/?EIO=4&transport=websocket`);
        socket.on("error", () => {});
        return () => socket.terminate();
      },
    ],
  ])("makes no session for a client that leaves over %s before it is known who it is", async (_, come) => {
    const known: (() => void)[] = [];
    const later = () => new Promise<undefined>((resolve) => known.push(() => resolve(undefined)));
    const data = vi.fn<() => Promise<undefined> | undefined>(later);
    const { server, sockets, connect, url } = await serve({ data, maxOpenPerAddress: 2 });
    const leaves = [come(url), come(url)];
    await until("both questions", async () => (known.length === 2 ? undefined : `${known.length}`));
    for (const leave of leaves) leave();
    await until("both are gone", async () => {
      const left = await new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count)));
      return left === 0 ? undefined : `${left}`;
    });
    data.mockReturnValue(undefined);
    for (const tell of known) tell();
    for (let n = 0; n < 2; n++) await connect();
    await expect(connect()).rejects.toThrow();
    expect(sockets.engine.clientsCount).toBe(2);
  });

  it.each(["polling", "websocket"])(
    "takes no place for a client over %s that another middleware has kept until it was gone",
    async (transport) => {
      const server = createServer();
      const sockets = new Server(server);
      onTestFinished(async () => void (await sockets.close()));
      let kept = 0;
      const isFirst = vi.fn(() => kept++ === 0);
      sockets.engine.use((request: IncomingMessage, _: unknown, next: () => void) => {
        if (isFirst()) request.socket.once("close", next).once("end", () => request.socket.destroy());
        else next();
      });
      guardSocketIo(sockets, { maxOpenPerUser: 1, data: () => ({ userId: "ann" }) });
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const gone = new AbortController();
      const upgrade = transport === "websocket" ? { Connection: "Upgrade", Upgrade: "websocket" } : {};
      const request = get(`${url}/socket.io/?EIO=4&transport=${transport}`, { headers: upgrade, signal: gone.signal });
      request.on("error", () => {});
      await until("the request", async () => (kept === 1 ? undefined : "not yet"));
      gone.abort();
      await until("a place", async () => {
        const client = io(url, { transports: [transport], reconnection: false, forceNew: true });
        onTestFinished(() => void client.disconnect());
        await new Promise<void>((resolve, reject) => {
          client.once("connect", resolve);
          client.once("connect_error", reject);
        });
      });
      expect(sockets.engine.clientsCount).toBe(1);
    },
  );

  it("bans also those who have left the namespace that they came by", async () => {
    const { connect } = await serve({ limits: { limiter: few(1), key: () => "all" }, onExceeded: "ban" });
    const client = await connect();
    const news = client.io.socket("/news");
    await new Promise<void>((resolve) => news.once("connect", resolve));
    client.disconnect();
    const gone = new Promise((resolve) => news.once("disconnect", resolve));
    for (let n = 0; n < 2; n++) news.emit("say", n);
    expect(await gone).toBe("io server disconnect");
  });

  it("refuses what Socket.IO sees to itself, and a server that is not attached", () => {
    expect(() => guardSocketIo(new Server(), {})).toThrow(/server: expected a Server of Socket.IO that is attached/);
    const server = new Server(createServer());
    for (const option of ["maxBytes", "maxPending", "typeOf", "closeCodes", "maxQueuedBytes"]) {
      expect(() => guardSocketIo(server, { [option]: 1 } as never)).toThrow(/unknown-option/);
    }
  });
});
