/** Admission of `guardWs`: rejections before the upgrade, counts, and the application's verifyClient. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { ServerOptions } from "ws";
import { until } from "../../test/servers/until.js";
import { connectRaw, type Data, few, serve } from "./ws-set-up.ts";

describe("admission of guardWs", () => {
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

  it("rejects with 500 if the application's verifyClient throws, and reports it", async () => {
    const onError = vi.fn();
    const verifyClient = () => {
      throw new Error("of the application");
    };
    const { connect } = await serve({ onError }, { verifyClient });
    await expect(connect()).rejects.toThrow("500");
    expect(onError).toHaveBeenCalledExactlyOnceWith(new Error("of the application"));
  });

  it("calls data only if the address may connect", async () => {
    const data = vi.fn(() => ({ userId: "ann" }));
    const { connect } = await serve({ upgrades: few(1), data });
    await connect();
    for (let n = 0; n < 3; n++) await expect(connect()).rejects.toThrow("429");
    expect(data).toHaveBeenCalledTimes(1);
  });
});
