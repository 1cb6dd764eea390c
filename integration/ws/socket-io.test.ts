/** `guardSocketIo`, beyond what it has in common with other servers. */
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { leakyBucket, memoryRateLimiter } from "sluice";
import { guardSocketIo, type SocketIoOptions } from "sluice/ws";
import { Server, type ServerOptions, type Socket } from "socket.io";
import { io, type ManagerOptions, type SocketOptions } from "socket.io-client";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { until } from "../../test/servers/until.js";

/** A guarded server, and a way to connect to it. */
async function serve(options: SocketIoOptions<unknown, IncomingMessage>, settings: Partial<ServerOptions> = {}) {
  const server = createServer();
  const sockets = new Server(server, settings);
  guardSocketIo<unknown, IncomingMessage>(sockets, options);
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
  return { heard, connect, url, sockets };
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
    const { connect, heard } = await serve({ connection: { capacity: 3, tokensPerSecond: "1/h" } });
    const client = await connect();
    const others = ["/news", "/room-1"].map((namespace) => client.io.socket(namespace));
    await Promise.all(others.map((other) => new Promise<void>((resolve) => other.connect().once("connect", resolve))));
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

  it("refuses what Socket.IO sees to itself, and a server that is not attached", () => {
    expect(() => guardSocketIo(new Server(), {})).toThrow(/server: expected a Server of Socket.IO that is attached/);
    const server = new Server(createServer());
    for (const option of ["maxBytes", "maxPending", "typeOf", "closeCodes", "maxQueuedBytes"]) {
      expect(() => guardSocketIo(server, { [option]: 1 } as never)).toThrow(/unknown-option/);
    }
  });
});
