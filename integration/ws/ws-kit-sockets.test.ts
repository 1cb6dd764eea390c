/** ws-kit routers over real sockets of Node.js and Bun, with `rateLimit` and with a guard around the router. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Middleware } from "@ws-kit/core";
import { rateLimit as wsKitRateLimit } from "@ws-kit/rate-limit";
import { memoryRateLimiter } from "sluice";
import { createGuard, jsonType, keyPerUser } from "sluice/ws";
import { rateLimit } from "sluice/ws-kit";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { until } from "../../test/servers/until.js";
import { costOf, routerWith, TYPES } from "./apps/ws-kit-router.js";
import { closed, connect, type OnBun, type ServerMessage, serveNode, startBun } from "./ws-kit-clients.ts";
import {
  decisionsOf,
  error,
  errorOf,
  FAST,
  type Limit,
  onRedis,
  saidMessage,
  server,
  stores,
  textsOf,
  waitIn,
} from "./ws-kit-set-up.ts";

let bun: OnBun;
beforeAll(async () => {
  bun = await startBun(server.url);
});
afterAll(() => bun?.stop());

describe.each<[string, Limit]>([
  ["rateLimit of sluice", rateLimit],
  ["rateLimit of ws-kit", wsKitRateLimit],
])("%s over a Node.js socket", (_, middleware) => {
  it.each(stores)("sends the decision of a limiter %s to the client", async (_, make) => {
    const limiter = make(FAST);
    const decisions = decisionsOf(limiter);
    const limit = middleware({ limiter, key: keyPerUser, cost: costOf });
    const { url, close } = await serveNode(routerWith(limit));
    onTestFinished(close);
    const client = await connect(`${url}?userId=u1`);
    const wait = waitIn(await client.requestAll("a", "b", "c", "d"));
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, true, false]);
    expect(wait).toBe(decisions[3]?.retryAfterMs);
    expect(await (await connect(`${url}?userId=u2`)).request()).toEqual(saidMessage("SAY"));
    await sleep(wait + 1);
    expect(await client.request()).toEqual(saidMessage("SAY"));
    expect(client.socket.readyState).toBe(client.socket.OPEN);
  });
});

it("keeps the order of 100 messages over a socket and Redis", async () => {
  const texts = Array.from({ length: 100 }, (_, i) => `${i}`);
  const limiter = onRedis({ capacity: 100, tokensPerSecond: 1 });
  const { url, close } = await serveNode(routerWith(rateLimit({ limiter })));
  onTestFinished(close);
  const client = await connect(url);
  client.sendMessages("SAY", ...texts);
  expect(textsOf(await client.receive(100))).toEqual(texts);
});

describe("onExceeded: close", () => {
  it.each([
    [
      "Node.js",
      async () => {
        const limiter = memoryRateLimiter({ capacity: 3, tokensPerSecond: 1 });
        const { url, close } = await serveNode(routerWith(rateLimit({ limiter, onExceeded: "close" })));
        onTestFinished(close);
        return url;
      },
    ],
    ["Bun", async () => bun.url("closing")],
  ])("closes a socket of %s with 1013 and the wait, and handles nothing afterwards", async (_, urlOf) => {
    const client = await connect(await urlOf());
    // One by one: the router handles frames that arrive together at once, and replies after the close are lost.
    expect(textsOf(await client.requestAll("a", "b", "c"))).toEqual(["a", "b", "c"]);
    const end = closed(client);
    client.sendMessages("SAY", "d", "e", "f");
    const [code, reason] = await end;
    expect(code).toBe(1013);
    const { limit, retryAfterMs } = JSON.parse(String(reason));
    expect(limit).toBe("rate");
    expect(retryAfterMs).toBeGreaterThan(0);
    expect(retryAfterMs).toBeLessThanOrEqual(1000);
  });
});

describe("rateLimit over a Bun socket", () => {
  it.each(["memory", "redis", "wsKitMemory", "wsKitRedis"])("%s: sends the decision to the client", async (app) => {
    const client = await connect(`${bun.url(app)}?userId=u1`);
    const denial = (await client.requestAll("a", "b", "c", "d")).find(
      ({ type }) => type === "RPC_ERROR",
    ) as ServerMessage;
    for (let i = 0; i < 3; i++) expect(await bun.decision()).toMatchObject({ allowed: true });
    const { allowed, retryAfterMs } = await bun.decision();
    expect([allowed, typeof retryAfterMs]).toEqual([false, "number"]);
    const details = { cost: 1, capacity: 3, remaining: 0 };
    const retryable = app.startsWith("wsKit") ? {} : { retryable: true };
    expect(errorOf(denial)).toEqual(error("RESOURCE_EXHAUSTED", { details, retryAfterMs, ...retryable }));
    expect(errorOf(await client.request("HUGE")).code).toBe("FAILED_PRECONDITION");
    expect(await bun.decision()).toMatchObject({ allowed: false, retryAfterMs: null });
    expect(errorOf(await client.request("FRACTION")).code).toBe("INVALID_ARGUMENT");
    expect(await client.request("FREE")).toEqual(saidMessage("FREE"));
    await sleep((retryAfterMs as number) + 1);
    expect(await client.request()).toEqual(saidMessage("SAY"));
    expect(await bun.decision()).toMatchObject({ allowed: true });
    for (const query of ["?userId=u2", "", ""]) {
      expect(await (await connect(bun.url(app) + query)).request()).toEqual(saidMessage("SAY"));
      expect(await bun.decision()).toMatchObject({ allowed: true, remaining: 2 });
    }
  });

  it("works with connections that guardBun upgrades instead of ws-kit's fetch", async () => {
    const first = await connect(bun.url("admitted"));
    expect(await first.request()).toEqual(saidMessage("SAY"));
    await expect(connect(bun.url("admitted"))).rejects.toThrow("429");
    first.socket.close();
    await until("a connection", async () => {
      const next = await connect(bun.url("admitted"));
      expect(await next.request()).toEqual(saidMessage("SAY"));
      next.socket.close();
      return undefined;
    });
  });
});

describe("a guard around the router limits frames that middleware does not see", () => {
  const JUNK = ["{", "null", "[]", '{"type":7}', '{"type":"UNKNOWN"}', '{"type":"$ws:open"}'];
  const HEARTBEAT = '{"type":"__heartbeat"}';
  const guard = createGuard({
    connection: { capacity: 5, tokensPerSecond: "1/h" },
    heartbeat: { capacity: 2, tokensPerSecond: "1/h" },
    typeOf: jsonType(),
    types: TYPES,
    heartbeats: ["__heartbeat"],
    maxBytes: 1000,
    onExceeded: ({ type }) => (type === "payload" ? "close" : "send"),
  });
  const reached: unknown[] = [];
  const unlimited: Middleware = (_, next) => next();
  const router = routerWith(unlimited, { onError: (error) => reached.push(error) });
  let plain: Awaited<ReturnType<typeof serveNode>>;
  let guarded: Awaited<ReturnType<typeof serveNode>>;
  beforeAll(async () => {
    plain = await serveNode(router);
    guarded = await serveNode(router, (socket, peer) => {
      const connection = guard.attach({
        id: crypto.randomUUID(),
        send: (message) => socket.send(message),
        close: (code, reason) => socket.close(code, reason),
      });
      socket.on("message", (data) =>
        connection.receive(String(data), (frame) => router.websocket.message(peer, frame as string)),
      );
      socket.on("close", () => connection.end());
    });
  });
  afterAll(() => {
    plain?.close();
    guarded?.close();
  });

  describe.each([
    ["createGuard on Node", () => plain.url, () => guarded.url],
    ["guardBun on Bun", () => bun.url("unguarded"), () => bun.url("guarded")],
  ])("%s", (name, open, shut) => {
    const codesOf = (messages: readonly ServerMessage[]) => messages.map(({ type, payload }) => payload?.code ?? type);

    it("invalid frames", async () => {
      const stranger = await connect(open());
      stranger.sendRaw(...JUNK, ...JUNK);
      expect(await stranger.all()).toEqual([]);
      reached.length = 0;
      const client = await connect(shut());
      client.sendRaw(...JUNK, ...JUNK);
      expect(codesOf(await client.receive(2))).toEqual(["INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"]);
      if (name.endsWith("Node")) expect(reached).toEqual([]);
      // They have emptied the connection's bucket.
      client.sendMessages("SAY", "x");
      client.sendRaw(HEARTBEAT);
      expect((await client.next()).type).toBe("__heartbeat_ack");
    });

    it("heartbeats, to which the router replies", async () => {
      const heartbeats = new Array(20).fill(HEARTBEAT);
      const stranger = await connect(open());
      stranger.sendRaw(...heartbeats);
      expect(codesOf(await stranger.receive(20))).toEqual(new Array(20).fill("__heartbeat_ack"));
      const client = await connect(shut());
      client.sendRaw(...heartbeats);
      expect(codesOf(await client.all())).toEqual(["__heartbeat_ack", "__heartbeat_ack", "RESOURCE_EXHAUSTED"]);
      expect(await client.request()).toEqual(saidMessage("SAY"));
    });

    it("frames of too many bytes", async () => {
      const large = JSON.stringify({ type: "SAY", meta: {}, payload: { text: "é".repeat(600) } });
      expect([large.length < 1000, Buffer.byteLength(large) > 1000]).toEqual([true, true]);
      const stranger = await connect(open());
      stranger.sendRaw(large);
      expect((await stranger.next()).type).toBe("SAID");
      const client = await connect(shut());
      expect(await client.request()).toEqual(saidMessage("SAY"));
      client.sendRaw(large);
      expect(await closed(client)).toEqual([1009, '{"limit":"payload"}']);
    });

    it("and passes other frames on unchanged", async () => {
      const client = await connect(shut());
      client.sendMessages("SAY", "a", "b", "c");
      client.sendRaw(JSON.stringify({ type: "SEARCH", meta: { correlationId: "1" }, payload: { query: "abc" } }));
      expect((await client.receive(4)).map(({ type }) => type)).toEqual(["SAID", "SAID", "SAID", "FOUND"]);
    });
  });
});
