/** How `guardSocketIo` shares the data of a client with the sockets of its namespaces. */
import { type EventEmitter, once } from "node:events";
import type { Socket } from "socket.io";
import { describe, expect, it } from "vitest";
import { until } from "../../test/servers/until.js";

import { few, serve } from "./socket-io-set-up.ts";

describe("client data of guardSocketIo", () => {
  it("can be set in socket.data by middleware", async () => {
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

  it("is copied to socket.data before the middleware, and keeps what the middleware sets", async () => {
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

  it("is copied from the connection to its sockets, also to later namespaces", async () => {
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

  it("is copied from the connection to a namespace that is being joined", async () => {
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

  it("is copied before the middleware of dynamic namespaces", async () => {
    const { connect, sockets } = await serve({ data: () => ({ userId: "ann" }) });
    const seen: unknown[] = [];
    sockets.of(/^\/team-\d+$/).use((socket, next) => {
      seen.push({ ...socket.data });
      next();
    });
    await connect({}, "/team-1");
    expect(seen).toEqual([{ userId: "ann" }]);
  });
});
