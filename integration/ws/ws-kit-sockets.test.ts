import { setTimeout as sleep } from "node:timers/promises";
import type { Middleware } from "@ws-kit/core";
import { rateLimit as theirs } from "@ws-kit/rate-limit";
import { createGuard, jsonType, keyPerUser } from "sluice/ws";
import { rateLimit } from "sluice/ws-kit";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { until } from "../../test/servers/until.js";
import { costOf, routerWith, TYPES } from "./apps/ws-kit-router.js";
import { closed, connect, type OnBun, serveNode, startBun, type Told } from "./ws-kit-clients.ts";
import {
  decisionsOf,
  error,
  errorOf,
  FAST,
  type Limit,
  onRedis,
  said,
  server,
  textsOf,
  waitIn,
  where,
} from "./ws-kit-set-up.ts";

let bun: OnBun;
beforeAll(async () => {
  bun = await startBun(server.url);
});
afterAll(() => bun?.stop());

describe.each<[string, Limit]>([
  ["our rateLimit", rateLimit],
  ["ws-kit's own", theirs],
])("%s over a socket of Node", (_, middleware) => {
  it.each(where)("tells a client of `ws` what the limiter decided %s", async (_, make) => {
    const limiter = make(FAST);
    const decisions = decisionsOf(limiter);
    const limit = middleware({ limiter, key: keyPerUser, cost: costOf });
    const { url, close } = await serveNode(routerWith(limit));
    onTestFinished(close);
    const client = await connect(`${url}?userId=u1`);
    const wait = waitIn(await client.askAll("a", "b", "c", "d"));
    expect(decisions.map(({ allowed }) => allowed)).toEqual([true, true, true, false]);
    expect(wait).toBe(decisions[3]?.retryAfterMs);
    expect(await (await connect(`${url}?userId=u2`)).ask()).toEqual(said("SAY"));
    await sleep(wait + 1);
    expect(await client.ask()).toEqual(said("SAY"));
    expect(client.socket.readyState).toBe(client.socket.OPEN);
  });
});

it("our rateLimit keeps the order of 100 messages over a socket and Redis", async () => {
  const texts = Array.from({ length: 100 }, (_, i) => `${i}`);
  const limiter = onRedis({ capacity: 100, tokensPerSecond: 1 });
  const { url, close } = await serveNode(routerWith(rateLimit({ limiter })));
  onTestFinished(close);
  const client = await connect(url);
  client.say("SAY", ...texts);
  expect(textsOf(await client.hears(100))).toEqual(texts);
});

describe("over a socket of Bun", () => {
  it.each(["memory", "redis", "theirsMemory", "theirsRedis"])("%s: a client is told what was decided", async (app) => {
    const client = await connect(`${bun.url(app)}?userId=u1`);
    const denial = (await client.askAll("a", "b", "c", "d")).find(({ type }) => type === "RPC_ERROR") as Told;
    for (let i = 0; i < 3; i++) expect(await bun.decision()).toMatchObject({ allowed: true });
    const { allowed, retryAfterMs } = await bun.decision();
    expect([allowed, typeof retryAfterMs]).toEqual([false, "number"]);
    const details = { cost: 1, capacity: 3, remaining: 0 };
    const retryable = app.startsWith("theirs") ? {} : { retryable: true };
    expect(errorOf(denial)).toEqual(error("RESOURCE_EXHAUSTED", { details, retryAfterMs, ...retryable }));
    expect(errorOf(await client.ask("HUGE")).code).toBe("FAILED_PRECONDITION");
    expect(await bun.decision()).toMatchObject({ allowed: false, retryAfterMs: null });
    expect(errorOf(await client.ask("HALF")).code).toBe("INVALID_ARGUMENT");
    expect(await client.ask("FREE")).toEqual(said("FREE"));
    await sleep((retryAfterMs as number) + 1);
    expect(await client.ask()).toEqual(said("SAY"));
    expect(await bun.decision()).toMatchObject({ allowed: true });
    for (const query of ["?userId=u2", "", ""]) {
      expect(await (await connect(bun.url(app) + query)).ask()).toEqual(said("SAY"));
      expect(await bun.decision()).toMatchObject({ allowed: true, remaining: 2 });
    }
  });

  it("guardBun admits connections for ws-kit's handlers, in place of its own fetch", async () => {
    const first = await connect(bun.url("admitted"));
    expect(await first.ask()).toEqual(said("SAY"));
    await expect(connect(bun.url("admitted"))).rejects.toThrow("429");
    first.socket.close();
    await until("it was not let in", async () => {
      const next = await connect(bun.url("admitted"));
      expect(await next.ask()).toEqual(said("SAY"));
      next.socket.close();
      return undefined;
    });
  });
});

describe("a guard around the router sees what its middleware never does", () => {
  const JUNK = ["{", "null", "[]", '{"type":7}', '{"type":"UNKNOWN"}', '{"type":"$ws:open"}'];
  const BEAT = '{"type":"__heartbeat"}';
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
    const codesOf = (told: readonly Told[]) => told.map(({ type, payload }) => payload?.code ?? type);

    it("frames that can't be read", async () => {
      const stranger = await connect(open());
      stranger.raw(...JUNK, ...JUNK);
      expect(await stranger.all()).toEqual([]);
      reached.length = 0;
      const client = await connect(shut());
      client.raw(...JUNK, ...JUNK);
      expect(codesOf(await client.hears(2))).toEqual(["INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"]);
      if (name.endsWith("Node")) expect(reached).toEqual([]);
      // They have used up what the connection may send.
      client.say("SAY", "x");
      client.raw(BEAT);
      expect((await client.next()).type).toBe("__heartbeat_ack");
    });

    it("heartbeats, each of which is answered", async () => {
      const beats = new Array(20).fill(BEAT);
      const stranger = await connect(open());
      stranger.raw(...beats);
      expect(codesOf(await stranger.hears(20))).toEqual(new Array(20).fill("__heartbeat_ack"));
      const client = await connect(shut());
      client.raw(...beats);
      expect(codesOf(await client.all())).toEqual(["__heartbeat_ack", "__heartbeat_ack", "RESOURCE_EXHAUSTED"]);
      expect(await client.ask()).toEqual(said("SAY"));
    });

    it("frames that are too large, by their bytes", async () => {
      const large = JSON.stringify({ type: "SAY", meta: {}, payload: { text: "é".repeat(600) } });
      expect([large.length < 1000, Buffer.byteLength(large) > 1000]).toEqual([true, true]);
      const stranger = await connect(open());
      stranger.raw(large);
      expect((await stranger.next()).type).toBe("SAID");
      const client = await connect(shut());
      expect(await client.ask()).toEqual(said("SAY"));
      client.raw(large);
      expect(await closed(client)).toEqual([1009, '{"limit":"payload"}']);
    });

    it("and what it lets pass is handled as without it", async () => {
      const client = await connect(shut());
      client.say("SAY", "a", "b", "c");
      client.raw(JSON.stringify({ type: "SEARCH", meta: { correlationId: "1" }, payload: { query: "abc" } }));
      expect((await client.hears(4)).map(({ type }) => type)).toEqual(["SAID", "SAID", "SAID", "FOUND"]);
    });
  });
});
