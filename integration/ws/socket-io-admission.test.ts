/** Admission of `guardSocketIo`: counts, upgrade limits and sessions, over polling and WebSockets. */
import { once } from "node:events";
import { createServer, get, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { memoryRateLimiter } from "sluice";
import { guardSocketIo } from "sluice/socket.io";
import { Server } from "socket.io";
import { io } from "socket.io-client";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { WebSocket } from "ws";
import { until } from "../../test/servers/until.js";

import { few, serve } from "./socket-io-set-up.ts";

const transportLists: { transports: ("polling" | "websocket")[] }[] = [
  { transports: ["polling"] },
  { transports: ["websocket"] },
  { transports: ["polling", "websocket"] },
];

describe("admission of guardSocketIo", () => {
  it.each(transportLists)("rejects connections over $transports with 429", async (transports) => {
    const { connect, url } = await serve({ upgrades: few(2) });
    await connect(transports);
    await connect(transports);
    await expect(connect(transports)).rejects.toThrow();
    const response = await fetch(`${url}/socket.io/?EIO=4&transport=polling`);
    expect(response.status).toBe(429);
    expect(Number(response.headers.get("retry-after"))).toBeGreaterThan(1000);
    expect(await response.json()).toMatchObject({ status: 429 });
  });

  it.each(transportLists)("counts connections over $transports, and releases each once", async (transports) => {
    const { connect, sockets } = await serve({ maxOpenPerAddress: 2 });
    for (let round = 0; round < 3; round++) {
      const clients = [await connect(transports), await connect(transports)];
      await expect(connect(transports)).rejects.toThrow();
      for (const client of clients) client.disconnect();
      await until("all have disconnected", async () => {
        const { clientsCount } = sockets.engine;
        return clientsCount === 0 ? undefined : `${clientsCount} left`;
      });
    }
  });

  describe("a session id in an upgrade (issue 13)", () => {
    /** Polls, and returns the status and the session id. */
    const poll = async (url: string, sid = ""): Promise<{ status: number; sid: string }> => {
      const response = await fetch(`${url}/socket.io/?EIO=4&transport=polling${sid && `&sid=${sid}`}`);
      const text = await response.text();
      return { status: response.status, sid: response.ok && !sid ? JSON.parse(text.slice(1)).sid : sid };
    };
    /** Opens a WebSocket that never replies to a close. Returns the status of the response. */
    const upgrade = async (url: string, sid: string): Promise<number> => {
      const request = get(`${url}/socket.io/?EIO=4&transport=websocket&sid=${sid}`, {
        agent: false,
        headers: {
          Connection: "Upgrade",
          Upgrade: "websocket",
          "Sec-WebSocket-Version": "13",
          "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        },
      });
      onTestFinished(() => void request.socket?.destroy());
      const [response] = await Promise.race([once(request, "upgrade"), once(request, "response")]);
      if (response.statusCode !== 101) response.resume();
      return response.statusCode;
    };
    const count = (statuses: number[], status: number) => statuses.filter((one) => one === status).length;
    const openOf = (server: Awaited<ReturnType<typeof serve>>["server"]) =>
      new Promise<number>((resolve) => server.getConnections((_, open) => resolve(open)));

    it("opens one WebSocket for its session, and others count as connections", async () => {
      const { url, server } = await serve({ maxOpenPerAddress: 2 });
      const { sid } = await poll(url);
      const statuses: number[] = [];
      for (let n = 0; n < 10; n++) {
        statuses.push(...(await Promise.all(Array.from({ length: 50 }, () => upgrade(url, sid)))));
      }
      // One that the session switches to, and one more connection.
      expect([count(statuses, 101), count(statuses, 429)]).toEqual([2, 498]);
      // The idle polling connection may still be open.
      await until("rejected ones are closed", async () => {
        const open = await openOf(server);
        return open <= 3 ? undefined : `${open} open`;
      });
      expect((await poll(url)).status).toBe(429);
    });

    it("limits the rate of upgrades of one session", async () => {
      const { url } = await serve({ upgrades: few(3) });
      const { sid } = await poll(url);
      const statuses: number[] = [];
      for (let n = 0; n < 6; n++) statuses.push(await upgrade(url, sid));
      expect(statuses).toEqual([101, 101, 101, 429, 429, 429]);
    });

    it("limits requests for unknown sessions", async () => {
      const { url } = await serve({ upgrades: few(4) });
      const statuses: number[] = [];
      for (let n = 0; n < 4; n++) statuses.push((await poll(url, `made-up-${n}`)).status);
      for (let n = 0; n < 2; n++) statuses.push(await upgrade(url, `made-up-${n}`));
      expect(statuses).toEqual([400, 400, 400, 400, 429, 429]);
    });

    it("counts a session until its socket is closed", async () => {
      const { url, sockets } = await serve({ maxOpenPerAddress: 1 });
      const sessions: { close(discard: boolean): unknown }[] = [];
      sockets.engine.on("connection", (session: { close(discard: boolean): unknown }) => sessions.push(session));
      const { sid } = await poll(url);
      expect(await upgrade(url, sid)).toBe(101);
      sessions[0]?.close(true);
      await until("the session is closed", async () => (sockets.engine.clientsCount === 0 ? undefined : "not yet"));
      // The client does not read, which keeps the TCP socket open.
      expect((await poll(url)).status).toBe(429);
    });
  });

  it.each(["polling", "websocket"] as const)(
    "releases the count if a %s request does not become a connection",
    async (name) => {
      const allowRequest = vi.fn((_: IncomingMessage, callback: (error: string | null, ok: boolean) => void) =>
        callback("not you", false),
      );
      const { connect } = await serve({ maxOpenPerAddress: 1 }, { allowRequest });
      for (let n = 0; n < 3; n++) await expect(connect({ transports: [name] })).rejects.toThrow();
      await until("three requests", async () =>
        allowRequest.mock.calls.length >= 3 ? undefined : `${allowRequest.mock.calls.length}`,
      );
    },
  );

  it("limits requests with an empty session id", async () => {
    const { url } = await serve({ upgrades: few(2) });
    const statuses: number[] = [];
    for (let n = 0; n < 4; n++) statuses.push((await fetch(`${url}/socket.io/?EIO=4&transport=polling&sid=`)).status);
    expect(statuses).toEqual([200, 200, 429, 429]);
  });

  it("releases the counts of aborted requests", async () => {
    const upgrades = memoryRateLimiter({ capacity: 100, tokensPerSecond: 100 });
    const calls: (() => void)[] = [];
    const consume = vi.spyOn(upgrades, "consume").mockImplementation(async (key, cost) => {
      await new Promise<void>((resolve) => calls.push(resolve));
      return upgrades.consumeSync(key, cost);
    });
    const { connect, url } = await serve({ upgrades, maxOpenPerAddress: 2 });
    for (let n = 1; n <= 3; n++) {
      const gone = new AbortController();
      const request = fetch(`${url}/socket.io/?EIO=4&transport=bogus`, { signal: gone.signal }).catch(() => {});
      await until("the call", async () => (calls.length === n ? undefined : "not yet"));
      gone.abort();
      await request;
      calls.at(-1)?.();
    }
    consume.mockRestore();
    for (let n = 0; n < 2; n++) await until("a connection", () => connect().then(() => undefined, String));
  });

  it.each<[string, (url: string) => () => void]>([
    [
      "polling",
      (url) => {
        const gone = new AbortController();
        fetch(`${url}/socket.io/?EIO=4&transport=polling`, { signal: gone.signal }).catch(() => {});
        return () => gone.abort();
      },
    ],
    [
      "websocket",
      (url) => {
        const socket = new WebSocket(`${url.replace("http", "ws")}/socket.io/?EIO=4&transport=websocket`);
        socket.on("error", () => {});
        return () => socket.terminate();
      },
    ],
  ])("creates no session for a client that disconnects over %s before data has settled", async (_, connectOnce) => {
    const pending: (() => void)[] = [];
    const later = () => new Promise<undefined>((resolve) => pending.push(() => resolve(undefined)));
    const data = vi.fn<() => Promise<undefined> | undefined>(later);
    const { server, sockets, connect, url } = await serve({ data, maxOpenPerAddress: 2 });
    const disconnects = [connectOnce(url), connectOnce(url)];
    await until("both calls", async () => (pending.length === 2 ? undefined : `${pending.length}`));
    for (const disconnect of disconnects) disconnect();
    await until("both have disconnected", async () => {
      const left = await new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count)));
      return left === 0 ? undefined : `${left}`;
    });
    data.mockReturnValue(undefined);
    for (const resolve of pending) resolve();
    for (let n = 0; n < 2; n++) await connect();
    await expect(connect()).rejects.toThrow();
    expect(sockets.engine.clientsCount).toBe(2);
  });

  it.each(["polling", "websocket"])(
    "does not count a client over %s that disconnected during other middleware",
    async (transport) => {
      const server = createServer();
      const sockets = new Server(server);
      onTestFinished(async () => void (await sockets.close()));
      let requests = 0;
      const isFirst = vi.fn(() => requests++ === 0);
      sockets.engine.use((request: IncomingMessage, _: unknown, next: () => void) => {
        if (isFirst()) request.socket.once("close", next).once("end", () => request.socket.destroy());
        else next();
      });
      guardSocketIo(sockets, { maxOpenPerUser: 1, data: () => ({ userId: "ann" }) });
      server.listen(0, "127.0.0.1");
      await once(server, "listening");
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const gone = new AbortController();
      const upgrade = transport === "websocket" ? { Connection: "Upgrade", Upgrade: "websocket" } : {};
      const request = get(`${url}/socket.io/?EIO=4&transport=${transport}`, { headers: upgrade, signal: gone.signal });
      request.on("error", () => {});
      await until("the request", async () => (requests === 1 ? undefined : "not yet"));
      gone.abort();
      await until("a connection", async () => {
        const client = io(url, { transports: [transport], reconnection: false, forceNew: true });
        onTestFinished(() => void client.disconnect());
        await new Promise<void>((resolve, reject) => {
          client.once("connect", resolve);
          client.once("connect_error", reject);
        });
      });
      expect(sockets.engine.clientsCount).toBe(1);
    },
  );
});
