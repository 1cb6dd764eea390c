/** Tests every mode of the fault proxy from the client's side. */
import { connect as dial } from "node:net";
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { startProxy } from "./fault-proxy.js";
import { withRedis } from "./needs.ts";
import { startRedis } from "./redis-server.js";
import { connect } from "./resp.js";
import { until } from "./until.js";

let server: Awaited<ReturnType<typeof startRedis>>;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());
beforeEach(() => server.call("FLUSHALL"));

async function proxied(port = server.port) {
  const proxy = await startProxy(port);
  onTestFinished(proxy.stop);
  const open = async (timeoutMs = 5000) => {
    const connection = await connect(proxy.port, { timeoutMs });
    onTestFinished(connection.close);
    return connection;
  };
  return { proxy, open };
}

const becomes = (value: () => unknown, wanted: unknown) =>
  until(`no ${wanted}`, async () => ((await value()) === wanted ? undefined : `it is ${await value()}`), 5000);

describe("the fault proxy", withRedis, () => {
  it("forwards bytes and counts connections", async () => {
    const { proxy, open } = await proxied();
    const large = "x".repeat(3_000_000);
    const [a, b] = [await open(), await open()];
    expect(await a.call("ECHO", large)).toBe(large);
    expect(await b.call("PING")).toBe("PONG");
    expect(proxy.connections).toBe(2);
    a.close();
    await becomes(() => proxy.connections, 1);
  });

  it("stalls both directions, then delivers the held bytes", async () => {
    const { proxy, open } = await proxied();
    const old = await open();
    await old.call("PING");
    proxy.set("stall");
    const young = await open();
    let replies = 0;
    const waiting = [old.call("INCR", "n"), young.call("INCR", "n"), old.call("INCR", "n")];
    for (const one of waiting) void one.then(() => replies++);
    const impatient = await open(60);
    await expect(impatient.call("INCR", "n")).rejects.toThrow("did not answer");
    expect([replies, await server.call("GET", "n")]).toEqual([0, null]);
    proxy.set("pass");
    await Promise.all(waiting);
    // The request was in flight when its sender disconnected.
    await becomes(() => server.call("GET", "n"), "4");
  });

  it("stalls a reply in flight", async () => {
    const { proxy, open } = await proxied();
    const connection = await open();
    const popped = connection.call("BLPOP", "list", 0);
    await becomes(async () => /blocked_clients:1/.test(`${await server.call("INFO", "clients")}`), true);
    proxy.set("stall");
    await server.call("LPUSH", "list", "v");
    await becomes(async () => server.call("LLEN", "list"), 0);
    await server.kill();
    await server.restart();
    proxy.set("pass");
    expect(await popped).toEqual(["list", "v"]);
    await becomes(() => connection.open, false);
  });

  it("drops replies, then closes those connections", async () => {
    const { proxy, open } = await proxied();
    const [connection, idle] = [await open(), await open()];
    await Promise.all([connection.call("PING"), idle.call("PING")]);
    proxy.set("drop-replies");
    const lost = connection.call("INCR", "n");
    const caught = lost.catch((error: Error) => error.message);
    await becomes(() => server.call("GET", "n"), "1");
    const impatient = await open(60);
    await expect(impatient.call("INCR", "n")).rejects.toThrow("did not answer");
    expect(await server.call("GET", "n")).toBe("2");
    proxy.set("pass");
    expect(await caught).toMatch(/ECONNRESET|closed/);
    expect(await idle.call("PING")).toBe("PONG");
  });

  it("refuses open and new connections", async () => {
    const { proxy, open } = await proxied();
    const connection = await open();
    await connection.call("PING");
    proxy.set("refuse");
    await becomes(() => connection.open, false);
    const late = await open().catch(() => undefined);
    if (late) await expect(late.call("PING")).rejects.toThrow(/closed|ECONNRESET|EPIPE/);
    expect(proxy.connections).toBe(0);
    proxy.set("pass");
    expect(await (await open()).call("PING")).toBe("PONG");
  });

  it("forwards single bytes", async () => {
    const { proxy, open } = await proxied();
    proxy.set("slice");
    const connection = await open();
    expect(await connection.call("EVAL", "return {1, 'two', {false, ARGV[1]}}", 0, "ü")).toEqual([
      1,
      "two",
      [null, "ü"],
    ]);
    const socket = dial(proxy.port, "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    const sizes: number[] = [];
    let text = "";
    socket.write("PING\r\n");
    await new Promise<void>((resolve) => {
      socket.on("data", (chunk) => {
        sizes.push(chunk.length);
        text += chunk;
        if (text.endsWith("\n")) resolve();
      });
    });
    expect(text).toBe("+PONG\r\n");
    expect(sizes.length).toBeGreaterThan(3);
  });

  it("delays bytes in order", async () => {
    const { proxy, open } = await proxied();
    const connection = await open();
    proxy.set({ delayMs: 40 });
    const start = performance.now();
    const replies = await Promise.all([1, 2, 3].map(() => connection.call("INCR", "n")));
    expect(replies).toEqual([1, 2, 3]);
    expect(performance.now() - start).toBeGreaterThanOrEqual(79);
    proxy.set({ delayMs: 60_000 });
    const held = connection.call("INCR", "n");
    proxy.set("pass");
    expect(await held).toBe(4);
  });

  it("resets connections", async () => {
    const { proxy } = await proxied();
    const socket = dial(proxy.port, "127.0.0.1");
    const error = new Promise<NodeJS.ErrnoException>((resolve) => socket.once("error", resolve));
    await new Promise((resolve) => socket.once("connect", resolve));
    await becomes(() => proxy.connections, 1);
    proxy.reset();
    expect((await error).code).toBe("ECONNRESET");
    await becomes(() => proxy.connections, 0);
  });

  it("connects new clients to another target", async () => {
    const other = await startRedis();
    onTestFinished(other.stop);
    await other.call("SET", "who", "other");
    const { proxy, open } = await proxied();
    const old = await open();
    expect(await old.call("GET", "who")).toBeNull();
    proxy.target = other.port;
    expect(await (await open()).call("GET", "who")).toBe("other");
    expect(await old.call("GET", "who")).toBeNull();
  });

  it("closes connections to a missing target and to one that crashes", async () => {
    const mortal = await startRedis();
    onTestFinished(mortal.stop);
    const { open } = await proxied(mortal.port);
    const connection = await open();
    await connection.call("PING");
    await mortal.kill();
    await becomes(() => connection.open, false);
    const late = await open().catch(() => undefined);
    if (late) await expect(late.call("PING")).rejects.toThrow(/closed|ECONNRESET|EPIPE/);
  });
});
