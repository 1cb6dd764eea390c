/** `guardWs`, beyond what it has in common with other servers. */
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { constants, deflateRawSync } from "node:zlib";
import { memoryRateLimiter } from "sluice";
import { guardWs, type WsGuardOptions } from "sluice/ws";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { type ServerOptions, WebSocket, WebSocketServer } from "ws";
import { until } from "../../test/servers/until.js";

interface Data {
  userId?: string;
}

/** A guarded server that counts what it handles, and a way to connect to it. */
async function serve(
  options: WsGuardOptions<Data, IncomingMessage>,
  settings: ServerOptions = {},
  how: "server" | "noServer" = "server",
) {
  const server = createServer();
  const wss = new WebSocketServer(how === "server" ? { server, ...settings } : { noServer: true, ...settings });
  const guard = guardWs<Data, IncomingMessage>(wss, options);
  const handled: unknown[] = [];
  wss.on("connection", (socket, request) => guard.attach(socket, request, (frame) => handled.push(frame)));
  if (how === "noServer") {
    server.on("upgrade", (request, socket, head) => {
      wss.handleUpgrade(request, socket, head, (client) => wss.emit("connection", client, request));
    });
  }
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  onTestFinished(async () => {
    for (const client of wss.clients) client.terminate();
    wss.close();
    server.close();
  });
  const connected = async (headers: Record<string, string> = {}): Promise<WebSocket> => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}`, { headers });
    onTestFinished(() => socket.terminate());
    await new Promise<void>((resolve, reject) => {
      socket.once("open", () => resolve());
      socket.once("unexpected-response", (_, response) => {
        let body = "";
        response.on("data", (chunk) => {
          body += chunk;
        });
        response.on("end", () => reject(Object.assign(new Error(`${response.statusCode}`), { response, body })));
      });
      socket.on("error", reject);
    });
    return socket;
  };
  return { handled, connect: connected, port, guard, wss };
}

const few = (capacity: number) => memoryRateLimiter({ capacity, tokensPerSecond: "1/h" });

describe("guardWs", () => {
  it.each(["server", "noServer"] as const)("refuses before the upgrade with a problem document, %s", async (how) => {
    const { connect } = await serve({ upgrades: few(1) }, {}, how);
    await connect();
    const { response, body } = await connect().then(
      () => expect.unreachable("let in"),
      (error) => error,
    );
    expect(response.statusCode).toBe(429);
    expect(response.headers).toMatchObject({
      "content-type": "application/problem+json",
      "cache-control": "no-store",
      "retry-after": "3600",
      connection: "close",
    });
    expect(JSON.parse(body)).toMatchObject({ status: 429, title: "Quota Exceeded" });
  });

  it.each([
    ["with a callback", (_: object, answer: (ok: boolean, code: number) => void) => answer(false, 403)],
    ["without", () => false],
  ])("asks the application's own verifyClient afterwards, %s", async (_, verifyClient) => {
    const { connect } = await serve({ maxOpenPerAddress: 1 }, { verifyClient } as ServerOptions);
    // A count is given back each time, or the second would be refused for another reason.
    for (const _ of [1, 2, 3]) await expect(connect()).rejects.toThrow(/40[13]/);
  });

  it("believes the proxies that it is told to, and counts IPv6 by the network of a client", async () => {
    const key = vi.fn(({ ip }: { ip: string | undefined }) => `${ip}`);
    const { connect } = await serve({
      identity: { trustedProxies: ["127.0.0.1"] },
      maxOpenPerAddress: 1,
      connection: false,
      limits: { limiter: few(9), key },
    });
    const one = await connect({ "x-forwarded-for": "2001:db8:1:2:3::4" });
    await expect(connect({ "x-forwarded-for": "2001:db8:1:100::1" })).resolves.toBeDefined();
    await expect(connect({ "x-forwarded-for": "2001:db8:1:ff::1" })).rejects.toThrow("429");
    one.send("hello");
    await until("a frame", async () => (key.mock.calls.length > 0 ? undefined : "none"));
    expect(key.mock.calls).toMatchObject([[{ ip: "2001:db8:1::/56" }]]);
  });

  it("gives texts as strings and the rest as bytes", async () => {
    const { connect, handled } = await serve({});
    const client = await connect();
    client.send("text");
    client.send(new Uint8Array([1, 2]));
    await until("two frames", async () => (handled.length === 2 ? undefined : `${handled.length}`));
    expect(handled).toEqual(["text", Buffer.from([1, 2])]);
  });

  it("knows who connects, and lets nobody in whom it fails at", async () => {
    const onError = vi.fn();
    const { connect } = await serve({
      maxOpenPerUser: 1,
      onError,
      data: async ({ headers }) => {
        if (headers.cookie === undefined) throw new Error("no session");
        return { userId: headers.cookie };
      },
    });
    await connect({ cookie: "ann" });
    await expect(connect({ cookie: "ann" })).rejects.toThrow("429");
    await connect({ cookie: "ben" });
    await expect(connect()).rejects.toThrow("500");
    expect(onError).toHaveBeenCalledExactlyOnceWith(new Error("no session"));
  });

  it("is not ended by a client that breaks the protocol", async () => {
    const onError = vi.fn();
    const { port, connect } = await serve({ onError });
    const raw = connectRaw(port);
    await raw.upgraded;
    // A frame with reserved bits that nobody agreed on.
    raw.socket.write(Buffer.from([0xf1, 0x80, 0, 0, 0, 0]));
    await until("an error", async () => (onError.mock.calls.length > 0 ? undefined : "none"));
    expect(onError.mock.calls[0]?.[0]).toBeInstanceOf(RangeError);
    await connect();
  });

  it("gives a count back when a client leaves in the middle of the upgrade", async () => {
    let known = (_: Data) => {};
    const data = vi.fn<() => Promise<Data> | Data>(() => new Promise((resolve) => (known = resolve)));
    const { port, connect, wss } = await serve({ maxOpenPerAddress: 1, data });
    const raw = connectRaw(port);
    await until("the request", async () => (data.mock.calls.length === 1 ? undefined : "not yet"));
    raw.socket.destroy();
    // The work for it is bounded as long as it goes on.
    await expect(connect()).rejects.toThrow("429");
    known({});
    data.mockReturnValue({});
    await until("room", () => connect().then(() => undefined, String));
    expect(wss.clients.size).toBe(1);
  });

  it("takes no place for a client that was gone before it was asked about", async () => {
    const { connect, wss } = await serve({ maxOpenPerUser: 1, data: () => ({ userId: "ann" }) }, {}, "noServer");
    const server = createServer().listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const gone: Promise<unknown>[] = [];
    // An application that takes its time before it hands over the upgrade.
    server.on("upgrade", (request, socket, head) => {
      socket.on("error", () => {});
      socket.on("end", () => socket.destroy());
      const handOver = () => wss.handleUpgrade(request, socket, head, () => expect.unreachable("upgraded"));
      gone.push(new Promise<void>((resolve) => socket.once("close", () => resolve())).then(handOver));
    });
    for (const how of ["destroy", "resetAndDestroy"] as const) {
      const raw = connectRaw((server.address() as AddressInfo).port);
      await until("the request", async () => (gone.length > 0 ? undefined : "not yet"));
      raw.socket[how]();
      await gone.pop();
    }
    await until("a place", () => connect().then(() => undefined));
  });

  it("lets a client that says goodbye and ends its side hear what was on its way", async () => {
    const { port, wss } = await serve({});
    wss.on("connection", (socket) => socket.send(new Uint8Array(8_000_000)));
    const raw = connectRaw(port);
    await raw.upgraded;
    raw.socket.pause();
    let bytes = 0;
    // A close frame with the code 1000, masked with zeros.
    raw.socket.end(Buffer.from([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]));
    await until("the server hears of it", async () => {
      const [socket] = wss.clients;
      return socket?.readyState === WebSocket.OPEN ? "not yet" : undefined;
    });
    raw.socket.on("data", (chunk) => {
      bytes += chunk.length;
    });
    raw.socket.resume();
    await once(raw.socket, "close");
    expect(bytes).toBeGreaterThan(7_000_000);
  });

  it("outlives a client that breaks the protocol before anything is attached", async () => {
    const onError = vi.fn();
    const { port, wss, connect } = await serve({ onError });
    wss.removeAllListeners("connection");
    guardWs(wss, { onError });
    const raw = connectRaw(port);
    await raw.upgraded;
    raw.socket.write(Buffer.from([0xf1, 0x80, 0, 0, 0, 0]));
    await until("an error", async () => (onError.mock.calls.length > 0 ? undefined : "none"));
    await connect();
  });

  it("reads nothing more of a client that was closed and does not answer", async () => {
    const { port, wss } = await serve({ connection: { capacity: 1, tokensPerSecond: "1/h" }, onExceeded: "close" });
    const raw = connectRaw(port);
    await raw.upgraded;
    const text = vi.fn(() => "x");
    const [socket] = wss.clients;
    const frame = Object.assign(new Uint8Array(1), { toString: text });
    for (let n = 0; n < 10; n++) socket?.emit("message", frame, false);
    expect(text).toHaveBeenCalledTimes(2);
  });

  it("answers pings itself where ws does not, as many as fit", async () => {
    const { connect } = await serve({ heartbeat: { capacity: 3, tokensPerSecond: "1/h" } }, { autoPong: false });
    const client = await connect();
    const pongs: string[] = [];
    client.on("pong", (data) => pongs.push(String(data)));
    for (let n = 1; n <= 6; n++) client.ping(String(n));
    const told = await new Promise<string>((resolve) => client.once("message", (data) => resolve(String(data))));
    expect(JSON.parse(told).payload).toMatchObject({ code: "RESOURCE_EXHAUSTED", retryAfterMs: expect.any(Number) });
    expect(pongs).toEqual(["1", "2", "3"]);
  });

  it("refuses whom the application's own verifyClient fails at, and says so", async () => {
    const onError = vi.fn();
    const verifyClient = () => {
      throw new Error("of the application");
    };
    const { connect } = await serve({ onError }, { verifyClient });
    await expect(connect()).rejects.toThrow("500");
    expect(onError).toHaveBeenCalledExactlyOnceWith(new Error("of the application"));
  });

  it("leaves what a listener to connections throws to the process, and the socket alone", async () => {
    const { connect, wss } = await serve({});
    wss.on("connection", () => {
      throw new Error("of the listener");
    });
    const seen: unknown[] = [];
    const others = process.listeners("uncaughtException");
    process.removeAllListeners("uncaughtException");
    process.on("uncaughtException", (error) => seen.push(error));
    onTestFinished(() => {
      process.removeAllListeners("uncaughtException");
      for (const other of others) process.on("uncaughtException", other);
    });
    const client = await connect();
    await until("the error", async () => (seen.length > 0 ? undefined : "not yet"));
    expect(seen).toEqual([new Error("of the listener")]);
    // Nothing was written into it that is no frame.
    client.ping();
    await once(client, "pong");
  });

  it("asks who somebody is only when the address may connect", async () => {
    const data = vi.fn(() => ({ userId: "ann" }));
    const { connect } = await serve({ upgrades: few(1), data });
    await connect();
    for (let n = 0; n < 3; n++) await expect(connect()).rejects.toThrow("429");
    expect(data).toHaveBeenCalledTimes(1);
  });

  it("handles nothing after the application has closed the socket", async () => {
    const { connect, handled, wss } = await serve({});
    wss.on("connection", (socket) => socket.once("message", () => socket.close()));
    const client = await connect();
    const closed = once(client, "close");
    for (let n = 0; n < 50; n++) client.send(`${n}`);
    await closed;
    expect(handled.length).toBeLessThanOrEqual(1);
  });

  it("does not read a frame to its end that is far too large", async () => {
    const onError = vi.fn();
    const { connect, handled } = await serve({ maxBytes: 1000, onError });
    const client = await connect();
    const closed = once(client, "close");
    client.send("x".repeat(5000));
    expect((await closed)[0]).toBe(1009);
    expect([handled, onError.mock.calls.length]).toEqual([[], 1]);
    // Unless the server was told what to read.
    const other = await serve({ maxBytes: 1000 }, { maxPayload: 10_000 });
    const told = await other.connect();
    told.send("x".repeat(5000));
    expect(String((await once(told, "message"))[0])).toContain("The frame is too large.");
  });

  it("counts pongs that nobody asked for", async () => {
    const { connect } = await serve({ closeAfter: 3 });
    const client = await connect();
    for (let n = 0; n < 50; n++) client.pong();
    expect((await once(client, "close"))[0]).toBe(1013);
  });

  it("refuses what it can't guard", async () => {
    expect(() => guardWs(undefined as never)).toThrow(/server: expected a WebSocketServer of ws/);
    expect(() => guardWs({ options: {} }, { limiter: few(1) } as never)).toThrow(/unknown-option/);
    const { guard } = await serve({});
    expect(() => guard.attach({} as never, {} as never, () => {})).toThrow(/request: expected the request/);
  });

  it("attaches only what it can hand over frames of, and to somebody", async () => {
    const { wss, connect, guard } = await serve({});
    const errors: unknown[] = [];
    wss.removeAllListeners("connection");
    wss.on("connection", (socket, request) => {
      try {
        guard.attach(socket, request, undefined as never);
      } catch (error) {
        errors.push(String(error));
      }
      socket.binaryType = "blob" as never;
      try {
        guard.attach(socket, request, () => {});
      } catch (error) {
        errors.push(String(error));
      }
    });
    await connect();
    expect(errors).toMatchObject([
      expect.stringContaining("handle: expected a function, received nothing"),
      expect.stringContaining('binaryType: expected nodebuffer, arraybuffer or fragments, received "blob"'),
    ]);
  });

  it("attaches a socket once", async () => {
    const { wss, connect, guard } = await serve({});
    const again = new Promise((resolve) => {
      wss.on("connection", (socket, request) => {
        try {
          resolve(guard.attach(socket, request, () => {}));
        } catch (error) {
          resolve(String(error));
        }
      });
    });
    await connect();
    expect(await again).toContain(
      "request: expected the request of a connection to the server that is guarded, not attached yet",
    );
  });

  it("tells of frames that it can't read because the application has asked for blobs, and counts them", async () => {
    const onError = vi.fn();
    const onLimitExceeded = vi.fn();
    const { wss, connect, handled } = await serve({
      onError,
      onLimitExceeded,
      connection: { capacity: 2, tokensPerSecond: "1/h" },
    });
    wss.on("connection", (socket) => {
      socket.binaryType = "blob" as never;
    });
    const client = await connect();
    for (let n = 0; n < 3; n++) client.send(new Uint8Array(1));
    await until("a denial", async () => (onLimitExceeded.mock.calls.length === 1 ? undefined : "none"));
    expect(onError.mock.calls.map(([error]) => error.option)).toEqual(["binaryType", "binaryType"]);
    expect(handled).toEqual([]);
  });

  describe("a client that was closed (issue 13)", () => {
    it("is not read and inflated for long, if it ignores that and goes on sending", async () => {
      const { port, wss } = await serve({ closeAfter: 3 }, { perMessageDeflate: true });
      let bytesRead = () => Number.NaN;
      wss.on("connection", (_, { socket }) => {
        bytesRead = () => socket.bytesRead;
      });
      const { socket, upgraded } = connectRaw(port, "Sec-WebSocket-Extensions: permessage-deflate\r\n");
      await upgraded;
      const [start, cpu] = [performance.now(), process.cpuUsage()];
      const frames = Buffer.concat(Array.from({ length: 50 }, () => deflatedFrame("a".repeat(65_536))));
      const send = () => {
        while (!socket.destroyed && socket.write(frames)) {}
      };
      socket.on("drain", send);
      send();
      await new Promise((resolve) => {
        socket.once("close", resolve);
        setTimeout(resolve, 5000);
      });
      const ms = performance.now() - start;
      const { user, system } = process.cpuUsage(cpu);
      const cpuMs = (user + system) / 1000;
      const figures = [ms, bytesRead() / 1000, cpuMs].map((figure) => figure.toFixed(0));
      console.log(
        `a flood that ignores its close: open for ${figures[0]} ms, read ${figures[1]} kB, CPU ${figures[2]} ms`,
      );
      expect(ms).toBeLessThan(3000);
      expect(bytesRead()).toBeLessThan(1_000_000);
    });

    it("sees its close code, also with frames on their way that were sent before", async () => {
      const { connect, wss } = await serve({ closeAfter: 3, connection: { capacity: 1, tokensPerSecond: "1/h" } });
      const codes: number[] = [];
      wss.on("connection", (socket) => socket.on("close", (code) => codes.push(code)));
      const client = await connect();
      const start = performance.now();
      for (let n = 0; n < 200; n++) client.send("hello");
      const [code] = await once(client, "close");
      expect(code).toBe(1013);
      await until("the server knows", async () => (codes.length > 0 ? undefined : "not yet"));
      // The handshake was completed, and did not wait for a timeout.
      expect(codes).toEqual([1013]);
      expect(performance.now() - start).toBeLessThan(900);
    });

    it("sees its close code, also if it had sent more than is read after a close", async () => {
      const { connect } = await serve({ closeAfter: 1, connection: { capacity: 1, tokensPerSecond: "1/h" } });
      const client = await connect();
      for (let n = 0; n < 50; n++) client.send("x".repeat(100_000));
      const [code] = await once(client, "close");
      expect(code).toBe(1013);
    });
  });
});

/** A client that does no more than ask for the upgrade. */
function connectRaw(port: number, headers = "") {
  const socket = connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  socket.write(
    "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
      `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n${headers}\r\n`,
  );
  return { socket, upgraded: once(socket, "data") };
}

/** A compressed and masked text frame. */
function deflatedFrame(text: string): Buffer {
  const payload = deflateRawSync(text, { finishFlush: constants.Z_SYNC_FLUSH }).subarray(0, -4);
  const length = Buffer.alloc(2);
  length.writeUInt16BE(payload.length);
  const head = payload.length < 126 ? [0xc1, 0x80 | payload.length] : [0xc1, 0x80 | 126, ...length];
  // A mask of zeros leaves the payload as it is.
  return Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), payload]);
}
