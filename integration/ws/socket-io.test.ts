/** Tests of `guardSocketIo` beyond those that all servers share. */
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

/** Starts a guarded server. */
async function serve(options: SocketIoOptions<unknown, IncomingMessage>, settings: Partial<ServerOptions> = {}) {
  const server = createServer();
  const sockets = new Server(server, settings);
  const guard = guardSocketIo<unknown, IncomingMessage>(sockets, options);
  const received: unknown[] = [];
  const listen = (socket: Socket) => {
    socket.on("say", (n) => received.push(n));
    socket.on("ask", (n, ack) => ack(n + 1));
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
  return { guard, received, connect, url, server, sockets };
}

const few = (capacity: number) => memoryRateLimiter({ capacity, tokensPerSecond: "1/h" });
const transportLists: { transports: ("polling" | "websocket")[] }[] = [
  { transports: ["polling"] },
  { transports: ["websocket"] },
  { transports: ["polling", "websocket"] },
];

describe("guardSocketIo", () => {
  it.each(transportLists)("rejects connections over $transports with 429", async (transports) => {
    const { connect, url } = await serve({ upgrades: few(2) });
    await connect(transports);
    await connect(transports);
    await expect(connect(transports)).rejects.toThrow();
    const response = await fetch(`${url}/socket.io/?EIO=4&transport=polling`);
    expect(response.status).toBe(429);
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(1000);
    expect(await response.json()).toMatchObject({ status: 429 });
  });

  it.each(transportLists)("counts connections over $transports, and releases each once", async (transports) => {
    const { connect, sockets } = await serve({ maxOpenPerAddress: 2 });
    for (let round = 0; round < 3; round++) {
      const clients = [await connect(transports), await connect(transports)];
      await expect(connect(transports)).rejects.toThrow();
      for (const client of clients) client.disconnect();
      await until("all have disconnected", async () => {
        const { clientsCount } = sockets.engine;
        return clientsCount === 0 ? undefined : `${clientsCount} left`;
      });
    }
  });

  describe("a session id in an upgrade (issue 13)", () => {
    /** Polls, and returns the status and the session id. */
    const poll = async (url: string, sid = ""): Promise<{ status: number; sid: string }> => {
      const response = await fetch(`${url}/socket.io/?EIO=4&transport=polling${sid && `&sid=${sid}`}`);
      const text = await response.text();
      return { status: response.status, sid: response.ok && !sid ? JSON.parse(text.slice(1)).sid : sid };
    };
    /** Opens a WebSocket that never replies to a close. Returns the status of the response. */
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

    it("opens one WebSocket for its session, and others count as connections", async () => {
      const { url, server } = await serve({ maxOpenPerAddress: 2 });
      const { sid } = await poll(url);
      const statuses: number[] = [];
      for (let n = 0; n < 10; n++) {
        statuses.push(...(await Promise.all(Array.from({ length: 50 }, () => upgrade(url, sid)))));
      }
      // One that the session switches to, and one more connection.
      expect([count(statuses, 101), count(statuses, 429)]).toEqual([2, 498]);
      // The idle polling connection may still be open.
      await until("rejected ones are closed", async () => {
        const open = await openOf(server);
        return open <= 3 ? undefined : `${open} open`;
      });
      expect((await poll(url)).status).toBe(429);
    });

    it("limits the rate of upgrades of one session", async () => {
      const { url } = await serve({ upgrades: few(3) });
      const { sid } = await poll(url);
      const statuses: number[] = [];
      for (let n = 0; n < 6; n++) statuses.push(await upgrade(url, sid));
      expect(statuses).toEqual([101, 101, 101, 429, 429, 429]);
    });

    it("limits requests for unknown sessions", async () => {
      const { url } = await serve({ upgrades: few(4) });
      const statuses: number[] = [];
      for (let n = 0; n < 4; n++) statuses.push((await poll(url, `made-up-${n}`)).status);
      for (let n = 0; n < 2; n++) statuses.push(await upgrade(url, `made-up-${n}`));
      expect(statuses).toEqual([400, 400, 400, 400, 429, 429]);
    });

    it("counts a session until its socket is closed", async () => {
      const { url, sockets } = await serve({ maxOpenPerAddress: 1 });
      const sessions: { close(discard: boolean): unknown }[] = [];
      sockets.engine.on("connection", (session: { close(discard: boolean): unknown }) => sessions.push(session));
      const { sid } = await poll(url);
      expect(await upgrade(url, sid)).toBe(101);
      sessions[0]?.close(true);
      await until("the session is closed", async () => (sockets.engine.clientsCount === 0 ? undefined : "not yet"));
      // The client does not read, which keeps the TCP socket open.
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
      await until("the socket is destroyed", async () => {
        const open = await new Promise<number>((resolve) => server.getConnections((_, open) => resolve(open)));
        return open === 0 ? undefined : `${open} open`;
      });
      expect(performance.now() - start).toBeLessThan(3000);
    },
  );

  it.each(["polling", "websocket"] as const)(
    "releases the count if a %s request does not become a connection",
    async (name) => {
      const allowRequest = vi.fn((_: IncomingMessage, callback: (error: string | null, ok: boolean) => void) =>
        callback("not you", false),
      );
      const { connect } = await serve({ maxOpenPerAddress: 1 }, { allowRequest });
      for (let n = 0; n < 3; n++) await expect(connect({ transports: [name] })).rejects.toThrow();
      await until("three requests", async () =>
        allowRequest.mock.calls.length >= 3 ? undefined : `${allowRequest.mock.calls.length}`,
      );
    },
  );

  it("has one bucket for all namespaces of a client", async () => {
    // Joining a namespace costs as much as an event.
    const { connect, received } = await serve({ connection: { capacity: 6, tokensPerSecond: "1/h" } });
    const client = await connect();
    const others = ["/news", "/room-1"].map((namespace) => client.io.socket(namespace));
    await Promise.all(others.map((other) => new Promise<void>((resolve) => other.once("connect", resolve))));
    const notices: unknown[] = [];
    for (const [i, socket] of [client, ...others].entries()) {
      socket.on("limit_exceeded", (notice) => notices.push([i, notice.code]));
      for (let n = 0; n < 2; n++) socket.emit("say", n);
    }
    await until("a notice", async () => (notices.length > 0 ? undefined : "none"));
    expect(received).toHaveLength(3);
    // The notice is sent to the namespace of the event.
    expect(notices).toEqual([[1, "RESOURCE_EXHAUSTED"]]);
  });

  it("passes arguments and acknowledgements on, in order, with the delay of a leaky bucket", async () => {
    const limiter = memoryRateLimiter(leakyBucket("20/s", { burst: 10 }));
    const { connect, received } = await serve({ limits: { limiter } });
    const client = await connect();
    const start = performance.now();
    for (let n = 0; n < 4; n++) client.emit("say", n);
    expect(await client.emitWithAck("ask", 41)).toBe(42);
    await until("the last", async () => (received.length === 4 ? undefined : `${received.length}`));
    expect(received).toEqual([0, 1, 2, 3]);
    expect(performance.now() - start).toBeGreaterThan(145);
  });

  it("accepts events with listeners, or those that types lists", async () => {
    const invalid: string[] = [];
    const onInvalid = ({ type }: { type: string }) => invalid.push(type);
    const { connect, received } = await serve({ onInvalid });
    const client = await connect();
    for (const name of ["unknown", "__proto__", "constructor", "toString"]) client.emit(name, 1);
    client.emit("say", 1);
    await until("the valid event", async () => (received.length > 0 ? undefined : "none"));
    expect(invalid).toEqual(Array(4).fill("!invalid"));
    const listed = await serve({ types: ["ask"], onInvalid });
    const other = await listed.connect();
    other.emit("say", 1);
    expect(await other.emitWithAck("ask", 1)).toBe(2);
    expect(listed.received).toEqual([]);
  });

  it("limits requests with an empty session id", async () => {
    const { url } = await serve({ upgrades: few(2) });
    const statuses: number[] = [];
    for (let n = 0; n < 4; n++) statuses.push((await fetch(`${url}/socket.io/?EIO=4&transport=polling&sid=`)).status);
    expect(statuses).toEqual([200, 200, 429, 429]);
  });

  it("releases the counts of aborted requests", async () => {
    const upgrades = memoryRateLimiter({ capacity: 100, tokensPerSecond: 100 });
    const calls: (() => void)[] = [];
    const consume = vi.spyOn(upgrades, "consume").mockImplementation(async (key, cost) => {
      await new Promise<void>((resolve) => calls.push(resolve));
      return upgrades.consumeSync(key, cost);
    });
    const { connect, url } = await serve({ upgrades, maxOpenPerAddress: 2 });
    for (let n = 1; n <= 3; n++) {
      const gone = new AbortController();
      const request = fetch(`${url}/socket.io/?EIO=4&transport=bogus`, { signal: gone.signal }).catch(() => {});
      await until("the call", async () => (calls.length === n ? undefined : "not yet"));
      gone.abort();
      await request;
      calls.at(-1)?.();
    }
    consume.mockRestore();
    for (let n = 0; n < 2; n++) await until("a connection", () => connect().then(() => undefined, String));
  });

  it("guards a recovered connection", async () => {
    const connectionStateRecovery = { maxDisconnectionDuration: 60_000 };
    const { connect, received, sockets } = await serve(
      { limits: { limiter: few(3), key: () => "all" } },
      { connectionStateRecovery },
    );
    const client = await connect({ reconnection: true, reconnectionDelay: 1 });
    // A session can be recovered only after the client has received an event.
    sockets.emit("news");
    await new Promise<void>((resolve) => client.once("news", () => resolve()));
    for (let n = 0; n < 5; n++) client.emit("say", n);
    await until("three", async () => (received.length === 3 ? undefined : `${received.length}`));
    client.io.engine.close();
    await new Promise<void>((resolve) => client.once("connect", resolve));
    expect(client.recovered).toBe(true);
    const notice = new Promise((resolve) => client.once("limit_exceeded", resolve));
    for (let n = 0; n < 20; n++) client.emit("say", n);
    await notice;
    expect(received).toHaveLength(3);
  });

  it("charges events that only onAny handles to one bucket", async () => {
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

  it("charges repeated joins of namespaces", async () => {
    const exceeded: LimitExceeded[] = [];
    const { connect, sockets } = await serve({
      connection: { capacity: 5, tokensPerSecond: "1/h" },
      onLimitExceeded: (info) => exceeded.push(info),
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
    // The bucket holds the first namespace and four more. Later joins are not processed.
    expect(auth).toHaveBeenCalledTimes(4);
    expect(exceeded).toMatchObject([{ type: "rate", limit: 5, action: "close" }]);
  });

  it("uses the user that middleware has set in socket.data", async () => {
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

  it("copies data to socket.data before the middleware, and keeps what the middleware sets", async () => {
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

  it("does not charge acknowledgements that the server expects", async () => {
    const onLimitExceeded = vi.fn();
    const { connect, sockets } = await serve({ connection: { capacity: 5, tokensPerSecond: "1/h" }, onLimitExceeded });
    const client = await connect();
    client.on("question", (ack) => ack("yes"));
    const [socket] = await sockets.fetchSockets();
    const acks = await Promise.all(
      Array.from({ length: 50 }, () =>
        sockets
          .in(socket?.id ?? "")
          .timeout(5000)
          .emitWithAck("question"),
      ),
    );
    expect(acks).toHaveLength(50);
    expect(onLimitExceeded).not.toHaveBeenCalled();
  });

  it("charges acknowledgements that are unexpected or repeated", async () => {
    const exceeded: LimitExceeded[] = [];
    const { connect, sockets, received } = await serve({
      connection: { capacity: 5, tokensPerSecond: "1/h" },
      onLimitExceeded: (info) => exceeded.push(info),
    });
    const client = await connect({ transports: ["websocket"] });
    const [socket] = await sockets.fetchSockets();
    const ack = sockets
      .in(socket?.id ?? "")
      .timeout(5000)
      .emitWithAck("question");
    await once(client as unknown as EventEmitter, "question");
    // The join and four of the nine duplicates are within the limit. The first acknowledgement is free.
    for (let n = 0; n < 10; n++) client.io.engine.write('30["yes"]');
    expect(await ack).toEqual(["yes"]);
    for (const packet of ['37["x"]', '3["x"]']) client.io.engine.write(packet);
    await until("denials", async () => (exceeded.length === 7 ? undefined : `${exceeded.length}`));
    expect(exceeded).toMatchObject(Array(7).fill({ type: "rate", limit: 5, action: "send" }));
    // Unexpected acknowledgements do not close the connection.
    expect(client.connected).toBe(true);
    expect(received).toEqual([]);
  });

  it("lets a client leave a namespace when its bucket is empty", async () => {
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

  it("bans a client that sends more packets after the offending one", async () => {
    const { connect } = await serve({ connection: { capacity: 2, tokensPerSecond: "1/h" }, onExceeded: "ban" });
    const client = await connect({ transports: ["websocket"] });
    const reason = new Promise((resolve) => client.once("disconnect", resolve));
    for (let n = 0; n < 3; n++) client.emit("say", n);
    for (let n = 0; n < 3; n++) client.io.engine.write("0/news,");
    expect(await reason).toBe("io server disconnect");
  });

  it("copies data set on the connection to its sockets, also to later namespaces", async () => {
    const { guard, connect, sockets } = await serve({});
    const seen: unknown[] = [];
    sockets.use((socket, next) => {
      socket.data.room = "lobby";
      guard.connection(socket).data = { userId: socket.handshake.auth.token };
      seen.push(guard.connection(socket).data);
      next();
    });
    const record = (socket: Socket) => seen.push({ ...socket.data }, guard.connection(socket).data);
    sockets.on("connection", record);
    sockets.of("/news").on("connection", (socket) => {
      record(socket);
      // Data that the application sets in one namespace is not copied to another.
      socket.data.room = "news";
    });
    const client = await connect({ auth: { token: "ann" } });
    await once(client.io.socket("/news") as unknown as EventEmitter, "connect");
    const inLobby = { userId: "ann", room: "lobby" };
    expect(seen.slice(0, 3)).toEqual(Array(3).fill(inLobby));
    expect(seen[3]).toEqual({ userId: "ann" });
    expect((await sockets.fetchSockets()).map(({ data }) => data)).toEqual([inLobby]);
  });

  it("copies data set on the connection to a namespace that is being joined", async () => {
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

  it("copies data before the middleware of dynamic namespaces", async () => {
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
  ])("creates no session for a client that disconnects over %s before data has settled", async (_, connectOnce) => {
    const pending: (() => void)[] = [];
    const later = () => new Promise<undefined>((resolve) => pending.push(() => resolve(undefined)));
    const data = vi.fn<() => Promise<undefined> | undefined>(later);
    const { server, sockets, connect, url } = await serve({ data, maxOpenPerAddress: 2 });
    const disconnects = [connectOnce(url), connectOnce(url)];
    await until("both calls", async () => (pending.length === 2 ? undefined : `${pending.length}`));
    for (const disconnect of disconnects) disconnect();
    await until("both have disconnected", async () => {
      const left = await new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count)));
      return left === 0 ? undefined : `${left}`;
    });
    data.mockReturnValue(undefined);
    for (const resolve of pending) resolve();
    for (let n = 0; n < 2; n++) await connect();
    await expect(connect()).rejects.toThrow();
    expect(sockets.engine.clientsCount).toBe(2);
  });

  it.each(["polling", "websocket"])(
    "does not count a client over %s that disconnected during other middleware",
    async (transport) => {
      const server = createServer();
      const sockets = new Server(server);
      onTestFinished(async () => void (await sockets.close()));
      let requests = 0;
      const isFirst = vi.fn(() => requests++ === 0);
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
      await until("the request", async () => (requests === 1 ? undefined : "not yet"));
      gone.abort();
      await until("a connection", async () => {
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

  it("bans a client that has left its first namespace", async () => {
    const { connect } = await serve({ limits: { limiter: few(1), key: () => "all" }, onExceeded: "ban" });
    const client = await connect();
    const news = client.io.socket("/news");
    await new Promise<void>((resolve) => news.once("connect", resolve));
    client.disconnect();
    const gone = new Promise((resolve) => news.once("disconnect", resolve));
    for (let n = 0; n < 2; n++) news.emit("say", n);
    expect(await gone).toBe("io server disconnect");
  });

  it("rejects options that Socket.IO has itself, and a server that is not attached", () => {
    expect(() => guardSocketIo(new Server(), {})).toThrow(/server must be a Socket.IO Server that is attached/);
    const server = new Server(createServer());
    for (const option of ["maxBytes", "maxPending", "typeOf", "closeCodes", "maxQueuedBytes"]) {
      expect(() => guardSocketIo(server, { [option]: 1 } as never)).toThrow(/unknown-option/);
    }
  });
});
