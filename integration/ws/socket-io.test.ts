/** Tests of `guardSocketIo` beyond those that all servers share. Admission and data have files of their own. */
import { type EventEmitter, once } from "node:events";
import { createServer } from "node:http";
import { leakyBucket, memoryRateLimiter } from "sluice";
import { guardSocketIo } from "sluice/socket.io";
import type { LimitExceeded } from "sluice/ws";
import { Server } from "socket.io";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { WebSocket } from "ws";
import { until } from "../../test/servers/until.js";

import { few, serve } from "./socket-io-set-up.ts";

describe("guardSocketIo", () => {
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
