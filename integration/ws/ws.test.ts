/** Tests of `guardWs` beyond those that all servers share. Admission is in ws-admission.test.ts. */
import { once } from "node:events";
import { constants, deflateRawSync } from "node:zlib";
import { guardWs } from "sluice/ws";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { WebSocket } from "ws";
import { until } from "../../test/servers/until.js";
import { connectRaw, few, serve } from "./ws-set-up.ts";

describe("guardWs", () => {
  it("passes text frames on as strings and binary ones as bytes", async () => {
    const { connect, handled } = await serve({});
    const client = await connect();
    client.send("text");
    client.send(new Uint8Array([1, 2]));
    await until("two frames", async () => (handled.length === 2 ? undefined : `${handled.length}`));
    expect(handled).toEqual(["text", Buffer.from([1, 2])]);
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

/** A compressed and masked text frame. */
function deflatedFrame(text: string): Buffer {
  const payload = deflateRawSync(text, { finishFlush: constants.Z_SYNC_FLUSH }).subarray(0, -4);
  const length = Buffer.alloc(2);
  length.writeUInt16BE(payload.length);
  const head = payload.length < 126 ? [0xc1, 0x80 | payload.length] : [0xc1, 0x80 | 126, ...length];
  // A mask of zeros does not change the payload.
  return Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), payload]);
}
