/** Tests of `guardWs` beyond those that all servers share. */
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

/** Starts a guarded server that records the frames it handles. */
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
  it.each(["server", "noServer"] as const)("rejects before the upgrade with a problem document, %s", async (how) => {
    const { connect } = await serve({ upgrades: few(1) }, {}, how);
    await connect();
    const { response, body } = await connect().then(
      () => expect.unreachable("admitted"),
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
    ["with a callback", (_: object, callback: (ok: boolean, code: number) => void) => callback(false, 403)],
    ["without a callback", () => false],
  ])("calls the application's verifyClient afterwards, %s", async (_, verifyClient) => {
    const { connect } = await serve({ maxOpenPerAddress: 1 }, { verifyClient } as ServerOptions);
    // The count is released each time. Otherwise the second would be rejected with 429.
    for (const _ of [1, 2, 3]) await expect(connect()).rejects.toThrow(/40[13]/);
  });

  it("uses the address from trusted proxies, and counts IPv6 by network", async () => {
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

  it("passes text frames on as strings and binary ones as bytes", async () => {
    const { connect, handled } = await serve({});
    const client = await connect();
    client.send("text");
    client.send(new Uint8Array([1, 2]));
    await until("two frames", async () => (handled.length === 2 ? undefined : `${handled.length}`));
    expect(handled).toEqual(["text", Buffer.from([1, 2])]);
  });

  it("counts users by data, and rejects a connection if data throws", async () => {
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

  it("survives a client that violates the protocol", async () => {
    const onError = vi.fn();
    const { port, connect } = await serve({ onError });
    const raw = connectRaw(port);
    await raw.upgraded;
    // A frame with reserved bits set, which no extension has negotiated.
    raw.socket.write(Buffer.from([0xf1, 0x80, 0, 0, 0, 0]));
    await until("an error", async () => (onError.mock.calls.length > 0 ? undefined : "none"));
    expect(onError.mock.calls[0]?.[0]).toBeInstanceOf(RangeError);
    await connect();
  });

  it("releases the count if a client disconnects during the upgrade", async () => {
    let known = (_: Data) => {};
    const data = vi.fn<() => Promise<Data> | Data>(() => new Promise((resolve) => (known = resolve)));
    const { port, connect, wss } = await serve({ maxOpenPerAddress: 1, data });
    const raw = connectRaw(port);
    await until("the request", async () => (data.mock.calls.length === 1 ? undefined : "not yet"));
    raw.socket.destroy();
    // The pending call of data still counts, which limits the work.
    await expect(connect()).rejects.toThrow("429");
    known({});
    data.mockReturnValue({});
    await until("a connection", () => connect().then(() => undefined, String));
    expect(wss.clients.size).toBe(1);
  });

  it("does not count a client that disconnected before the upgrade was handled", async () => {
    const { connect, wss } = await serve({ maxOpenPerUser: 1, data: () => ({ userId: "ann" }) }, {}, "noServer");
    const server = createServer().listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const gone: Promise<unknown>[] = [];
    // An application that does asynchronous work before it calls handleUpgrade.
    server.on("upgrade", (request, socket, head) => {
      socket.on("error", () => {});
      socket.on("end", () => socket.destroy());
      const handleUpgrade = () => wss.handleUpgrade(request, socket, head, () => expect.unreachable("upgraded"));
      gone.push(new Promise<void>((resolve) => socket.once("close", () => resolve())).then(handleUpgrade));
    });
    for (const how of ["destroy", "resetAndDestroy"] as const) {
      const raw = connectRaw((server.address() as AddressInfo).port);
      await until("the request", async () => (gone.length > 0 ? undefined : "not yet"));
      raw.socket[how]();
      await gone.pop();
    }
    await until("a connection", () => connect().then(() => undefined));
  });

  it("delivers pending messages to a client that closes and ends its side", async () => {
    const { port, wss } = await serve({});
    wss.on("connection", (socket) => socket.send(new Uint8Array(8_000_000)));
    const raw = connectRaw(port);
    await raw.upgraded;
    raw.socket.pause();
    let bytes = 0;
    // A close frame with the code 1000, masked with zeros.
    raw.socket.end(Buffer.from([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]));
    await until("the server has received the close", async () => {
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

  it("survives a client that violates the protocol before it is attached", async () => {
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

  it("does not decode frames of a client after it was closed", async () => {
    const { port, wss } = await serve({ connection: { capacity: 1, tokensPerSecond: "1/h" }, onExceeded: "close" });
    const raw = connectRaw(port);
    await raw.upgraded;
    const text = vi.fn(() => "x");
    const [socket] = wss.clients;
    const frame = Object.assign(new Uint8Array(1), { toString: text });
    for (let n = 0; n < 10; n++) socket?.emit("message", frame, false);
    expect(text).toHaveBeenCalledTimes(2);
  });

  it("replies to pings within the limit if autoPong is off", async () => {
    const { connect } = await serve({ heartbeat: { capacity: 3, tokensPerSecond: "1/h" } }, { autoPong: false });
    const client = await connect();
    const pongs: string[] = [];
    client.on("pong", (data) => pongs.push(String(data)));
    for (let n = 1; n <= 6; n++) client.ping(String(n));
    const notice = await new Promise<string>((resolve) => client.once("message", (data) => resolve(String(data))));
    expect(JSON.parse(notice).payload).toMatchObject({ code: "RESOURCE_EXHAUSTED", retryAfterMs: expect.any(Number) });
    expect(pongs).toEqual(["1", "2", "3"]);
  });

  it("rejects with 500 if the application's verifyClient throws, and reports it", async () => {
    const onError = vi.fn();
    const verifyClient = () => {
      throw new Error("of the application");
    };
    const { connect } = await serve({ onError }, { verifyClient });
    await expect(connect()).rejects.toThrow("500");
    expect(onError).toHaveBeenCalledExactlyOnceWith(new Error("of the application"));
  });

  it("leaves an error of a connection listener uncaught, and the socket open", async () => {
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
    // Nothing but frames was written to the socket.
    client.ping();
    await once(client, "pong");
  });

  it("calls data only if the address may connect", async () => {
    const data = vi.fn(() => ({ userId: "ann" }));
    const { connect } = await serve({ upgrades: few(1), data });
    await connect();
    for (let n = 0; n < 3; n++) await expect(connect()).rejects.toThrow("429");
    expect(data).toHaveBeenCalledTimes(1);
  });

  it("handles no frame after the application has closed the socket", async () => {
    const { connect, handled, wss } = await serve({});
    wss.on("connection", (socket) => socket.once("message", () => socket.close()));
    const client = await connect();
    const closed = once(client, "close");
    for (let n = 0; n < 50; n++) client.send(`${n}`);
    await closed;
    expect(handled.length).toBeLessThanOrEqual(1);
  });

  it("closes while it reads a frame of more than four times maxBytes", async () => {
    const onError = vi.fn();
    const { connect, handled } = await serve({ maxBytes: 1000, onError });
    const client = await connect();
    const closed = once(client, "close");
    client.send("x".repeat(5000));
    expect((await closed)[0]).toBe(1009);
    expect([handled, onError.mock.calls.length]).toEqual([[], 1]);
    // Not if the server has a maxPayload of its own.
    const other = await serve({ maxBytes: 1000 }, { maxPayload: 10_000 });
    const otherClient = await other.connect();
    otherClient.send("x".repeat(5000));
    expect(String((await once(otherClient, "message"))[0])).toContain("The frame is too large.");
  });

  it("charges unsolicited pongs", async () => {
    const { connect } = await serve({ closeAfter: 3 });
    const client = await connect();
    for (let n = 0; n < 50; n++) client.pong();
    expect((await once(client, "close"))[0]).toBe(1013);
  });

  it("rejects an invalid server, options and request", async () => {
    expect(() => guardWs(undefined as never)).toThrow(/server must be a WebSocketServer of the ws package/);
    expect(() => guardWs({ options: {} }, { limiter: few(1) } as never)).toThrow(/unknown-option/);
    const { guard } = await serve({});
    expect(() => guard.attach({} as never, {} as never, () => {})).toThrow(
      /attach\(\) needs the request of a connection that this guard admitted/,
    );
  });

  it("rejects a missing handler and the binaryType blob", async () => {
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
      expect.stringContaining("handle must be a function, but received undefined"),
      expect.stringContaining('binaryType must be "nodebuffer", "arraybuffer" or "fragments", but received "blob"'),
    ]);
  });

  it("rejects attaching a request twice", async () => {
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
      "attach() needs the request of a connection that this guard admitted, and each request can be attached only once.",
    );
  });

  it("reports and charges frames that arrive as blobs", async () => {
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

  describe("a closed client (issue 13)", () => {
    it("is not read and inflated for long if it ignores the close and keeps sending", async () => {
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
      const numbers = [ms, bytesRead() / 1000, cpuMs].map((number) => number.toFixed(0));
      console.log(
        `a flood that ignores its close: open for ${numbers[0]} ms, read ${numbers[1]} kB, CPU ${numbers[2]} ms`,
      );
      expect(ms).toBeLessThan(3000);
      expect(bytesRead()).toBeLessThan(1_000_000);
    });

    it("receives the close code while its frames are in flight", async () => {
      const { connect, wss } = await serve({ closeAfter: 3, connection: { capacity: 1, tokensPerSecond: "1/h" } });
      const codes: number[] = [];
      wss.on("connection", (socket) => socket.on("close", (code) => codes.push(code)));
      const client = await connect();
      const start = performance.now();
      for (let n = 0; n < 200; n++) client.send("hello");
      const [code] = await once(client, "close");
      expect(code).toBe(1013);
      await until("the server has closed", async () => (codes.length > 0 ? undefined : "not yet"));
      // The close handshake was completed without the timeout.
      expect(codes).toEqual([1013]);
      expect(performance.now() - start).toBeLessThan(900);
    });

    it("receives the close code after sending more than is read after a close", async () => {
      const { connect } = await serve({ closeAfter: 1, connection: { capacity: 1, tokensPerSecond: "1/h" } });
      const client = await connect();
      for (let n = 0; n < 50; n++) client.send("x".repeat(100_000));
      const [code] = await once(client, "close");
      expect(code).toBe(1013);
    });
  });
});

/** Connects a client that sends the upgrade request and nothing else. */
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
  // A mask of zeros does not change the payload.
  return Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), payload]);
}
