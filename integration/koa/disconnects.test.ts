/** What `idempotent` of `sluice/koa` stores for a client that has disconnected: Koa itself writes no such response. */
import { once } from "node:events";
import { connect } from "node:net";
import { Readable } from "node:stream";
import { memoryIdempotencyStore } from "sluice/idempotency";
import { idempotent } from "sluice/koa";
import { describe, expect, it, onTestFinished } from "vitest";
import { listen } from "../../test/middleware/mount.ts";
import { until } from "../../test/servers/until.js";
import { versions } from "./app.ts";

const settled = (what: string, isMet: () => boolean) => until(what, async () => (isMet() ? undefined : "not yet"));

const pay = async (url: string): Promise<number> =>
  (await fetch(url, { method: "POST", headers: { "Idempotency-Key": "once" } })).status;

describe.each(versions)("%s", (_name, KoaApp) => {
  it.each([
    ["a stream", () => Readable.from(["paid"]), 409],
    ["a Blob", () => new Blob(["paid"]), 409],
    ["text", () => "paid", 200],
    ["an object", () => ({ paid: true }), 200],
    [
      "an error",
      () => {
        throw Object.assign(new Error("on purpose"), { status: 422 });
      },
      422,
    ],
  ])("stores no false response of Koa for a client that has disconnected: %s", async (_what, bodyOf, status) => {
    let runs = 0;
    let isClosed = false;
    const app = new KoaApp();
    app.silent = true;
    app.use(idempotent({ store: memoryIdempotencyStore(), scope: () => "ada" }));
    app.use(async (context) => {
      runs++;
      if (!isClosed) await once(context.res, "close");
      isClosed = true;
      context.body = bodyOf();
    });
    const server = await listen(app.callback());
    onTestFinished(server.close);
    const post = "POST / HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: once\r\nContent-Length: 0\r\n\r\n";
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1").on("error", () => {});
    socket.resume().write(post);
    await settled("the request runs", () => runs === 1);
    socket.destroy();
    await settled("the handler has ended", () => isClosed);
    expect([await pay(server.url), runs]).toEqual([status, 1]);
  });
});
