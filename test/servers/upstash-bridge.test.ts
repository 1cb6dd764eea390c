/** Tests that the bridge responds like Upstash. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { withRedis } from "./needs.ts";
import { startRedis } from "./redis-server.js";
import { startUpstashBridge } from "./upstash-bridge.js";

let server: Awaited<ReturnType<typeof startRedis>>;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.stop());
beforeEach(() => server.call("FLUSHALL"));

async function bridged() {
  const bridge = await startUpstashBridge(server.port);
  onTestFinished(bridge.stop);
  const send = (path: string, body: unknown, headers: Record<string, string> = {}) =>
    fetch(bridge.url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${bridge.token}`, ...headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
  const json = async (...args: Parameters<typeof send>): Promise<[number, unknown]> => {
    const response = await send(...args);
    return [response.status, await response.json()];
  };
  return { bridge, send, json };
}

const b64 = (text: string) => Buffer.from(text).toString("base64");

describe("the Upstash bridge", withRedis, () => {
  it("executes one command", async () => {
    const { bridge, json } = await bridged();
    expect(await json("/", ["SET", "k", 7])).toEqual([200, { result: "OK" }]);
    expect(await json("/", ["GET", "k"])).toEqual([200, { result: "7" }]);
    expect(await json("/", ["GET", "none"])).toEqual([200, { result: null }]);
    expect(await json("/", ["EVALSHA", "f".repeat(40), 0])).toEqual([
      400,
      { error: "NOSCRIPT No matching script. Please use EVAL." },
    ]);
    expect([bridge.requests, bridge.commands]).toEqual([4, 4]);
  });

  it("encodes every string except OK", async () => {
    const { json } = await bridged();
    const encoding = { "Upstash-Encoding": "base64" };
    const script = "return {'abcd', 5, {'a b', false}, ARGV[1]}";
    expect(await json("/", ["SET", "k", "v"], encoding)).toEqual([200, { result: "OK" }]);
    expect(await json("/", ["PING"], encoding)).toEqual([200, { result: b64("PONG") }]);
    expect(await json("/", ["EVAL", script, 0, "ü"], encoding)).toEqual([
      200,
      { result: [b64("abcd"), 5, [b64("a b"), null], b64("ü")] },
    ]);
    expect(await json("/pipeline", [["GET", "k"]], encoding)).toEqual([200, [{ result: b64("v") }]]);
  });

  it("executes pipelines and returns errors in order", async () => {
    const { bridge, json } = await bridged();
    expect(await json("/pipeline", [["SET", "k", "v"], ["INCR", "k"], ["NONSENSE"], ["GET", "k"]])).toEqual([
      200,
      [
        { result: "OK" },
        { error: "ERR value is not an integer or out of range" },
        { error: expect.stringContaining("ERR unknown command 'NONSENSE'") },
        { result: "v" },
      ],
    ]);
    expect([bridge.requests, bridge.commands]).toEqual([1, 4]);
  });

  it("executes transactions atomically", async () => {
    const { json } = await bridged();
    const twice = [
      ["INCR", "n"],
      ["INCR", "n"],
    ];
    const all = await Promise.all(Array.from({ length: 50 }, () => json("/multi-exec", twice)));
    for (const [status, body] of all) {
      const [first, second] = body as [{ result: number }, { result: number }];
      expect([status, second.result - first.result, first.result % 2]).toEqual([200, 1, 1]);
    }
    const mixed = [
      ["SET", "k", "v"],
      ["INCR", "k"],
    ];
    expect(await json("/multi-exec", mixed)).toEqual([
      200,
      [{ result: "OK" }, { error: expect.stringContaining("ERR") }],
    ]);
    expect(await json("/multi-exec", [["SET", "k", "w"], ["NONSENSE"]])).toEqual([
      400,
      { error: expect.stringContaining("unknown command") },
    ]);
    expect(await server.call("GET", "k")).toBe("v");
  });

  it("rejects invalid requests", async () => {
    const { bridge, json } = await bridged();
    expect(await json("/", ["PING"], { authorization: "Bearer wrong" })).toEqual([401, { error: "Unauthorized" }]);
    expect(await json("/nowhere", ["PING"])).toEqual([404, { error: expect.any(String) }]);
    for (const body of ["{", "7", "[]", '{"a":1}']) expect((await json("/", body))[0]).toBe(400);
    expect((await json("/pipeline", ["PING"]))[0]).toBe(400);
    expect([bridge.requests, bridge.commands]).toEqual([7, 0]);
  });

  it("sends and receives the sync token", async () => {
    const { bridge, send } = await bridged();
    const first = (await send("/", ["SET", "k", "v"])).headers.get("upstash-sync-token") as string;
    expect(first).not.toBe("");
    const second = (await send("/", ["GET", "k"], { "upstash-sync-token": first })).headers.get("upstash-sync-token");
    expect(bridge.syncToken).toBe(first);
    expect(second).not.toBe(first);
  });

  it("drops replies to executed commands", async () => {
    const { bridge, json } = await bridged();
    bridge.dropReplies(2);
    await expect(json("/", ["INCR", "n"])).rejects.toThrow("fetch failed");
    await expect(json("/pipeline", [["INCR", "n"]])).rejects.toThrow("fetch failed");
    expect(await json("/", ["INCR", "n"])).toEqual([200, { result: 3 }]);
    expect([bridge.requests, bridge.commands]).toEqual([3, 3]);
  });

  it("fails on demand without executing commands", async () => {
    const { bridge, json } = await bridged();
    bridge.fail(503);
    expect(await json("/", ["INCR", "n"])).toEqual([503, { error: expect.any(String) }]);
    bridge.fail(undefined);
    expect(await json("/", ["INCR", "n"])).toEqual([200, { result: 1 }]);
  });

  it("reconnects after a crash of its redis-server", async () => {
    const { json } = await bridged();
    await json("/", ["PING"]);
    await server.kill();
    expect(await json("/", ["PING"])).toEqual([502, { error: expect.stringContaining("ERR ") }]);
    await server.restart();
    const replies = await Promise.all([json("/", ["PING"]), json("/", ["PING"])]);
    expect(replies).toEqual([
      [200, { result: "PONG" }],
      [200, { result: "PONG" }],
    ]);
  });
});
