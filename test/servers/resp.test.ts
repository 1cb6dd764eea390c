/** Tests the minimal Redis client of the tests. */
import { createServer } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { withRedis } from "./needs.ts";
import { startRedis } from "./redis-server.js";
import { connect, RespError } from "./resp.js";

async function connected(options?: { timeoutMs: number }) {
  const server = await startRedis();
  onTestFinished(server.stop);
  const connection = await connect(server.port, options);
  onTestFinished(connection.close);
  return { server, connection };
}

describe("the RESP client", withRedis, () => {
  it("parses every type of reply", async () => {
    const { connection } = await connected();
    expect(await connection.call("SET", "k", "grüße")).toBe("OK");
    expect(await connection.call("GET", "k")).toBe("grüße");
    expect(await connection.call("GET", "none")).toBeNull();
    expect(await connection.call("INCRBY", "n", -7)).toBe(-7);
    expect(await connection.call("EVAL", "return {1, 'two', {false, {}}}", 0)).toEqual([1, "two", [null, []]]);
    await expect(connection.call("INCR", "k")).rejects.toThrow(RespError);
  });

  it("preserves bytes", async () => {
    const { connection } = await connected();
    const bytes = Buffer.from([0, 13, 10, 255, 36]);
    await connection.call("SET", "k", bytes);
    expect(await connection.callRaw("GET", "k")).toEqual(bytes);
  });

  it("returns errors inside arrays as values", async () => {
    const { connection } = await connected();
    const sent = [["SET", "k", "v"], ["MULTI"], ["INCR", "k"], ["GET", "k"], ["EXEC"]].map((c) =>
      connection.call(...c),
    );
    const replies = await Promise.all(sent);
    expect(replies.at(-1)).toEqual([expect.any(RespError), "v"]);
  });

  it("returns replies in order for many and for large commands", async () => {
    const { connection } = await connected();
    const replies = await Promise.all(Array.from({ length: 2000 }, (_, i) => connection.call("ECHO", i)));
    expect(replies).toEqual(Array.from({ length: 2000 }, (_, i) => `${i}`));
    const large = "x".repeat(1_000_000);
    expect(await connection.call("ECHO", large)).toBe(large);
  });

  it("times out on a hanging server and closes", async () => {
    const { server, connection } = await connected({ timeoutMs: 50 });
    server.pause();
    const message = `port ${server.port} did not answer PING within 0.05 s`;
    await Promise.all([1, 2].map(() => expect(connection.call("PING")).rejects.toThrow(message)));
    expect(connection.open).toBe(false);
    await expect(connection.call("PING")).rejects.toThrow("did not answer");
  });

  it("rejects calls on a closed connection", async () => {
    const { server, connection } = await connected();
    const broken = expect(connection.call("BLPOP", "list", 0)).rejects.toThrow(/closed|ECONNRESET/);
    await server.kill();
    await broken;
    await expect(connect(server.port)).rejects.toThrow("ECONNREFUSED");
  });

  it("rejects data that is not RESP", async () => {
    const http = createServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n")).listen(0, "127.0.0.1");
    onTestFinished(() => void http.close());
    await new Promise((resolve) => http.once("listening", resolve));
    const connection = await connect((http.address() as { port: number }).port);
    await expect(connection.call("PING")).rejects.toThrow("not a RESP2 reply: HTTP/1.1");
  });
});
