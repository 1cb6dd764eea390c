/** `sluice/express` in real apps of Express 4 and 5. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { NextFunction, Request, Response } from "express5";
import { type ExpressRateLimitOptions, idempotent, rateLimit } from "sluice/express";
import { describe, expect, it, onTestFinished } from "vitest";
import { listen } from "../../test/middleware/mount.ts";
import { sendRequest } from "../send-request.ts";
import { serverSuite } from "../server-suite.ts";
import { solving } from "../solving.ts";
import { expectNoBypass } from "../spellings.ts";
import { newRequest, storing, textOf } from "../stored-responses.ts";
import { kit, startApp, versions } from "./app.ts";

for (const [name, express] of versions) {
  serverSuite(name, { kit, start: (routes) => startApp(express, routes) });

  describe(`${name}, beyond the suite`, () => {
    const served = async (app: ReturnType<typeof express>) => {
      const server = await listen(app as RequestListener);
      onTestFinished(server.close);
      return server;
    };
    const ok = (_request: Request, response: Response) => void response.send("ok");
    const limited = (capacity: number, more: ExpressRateLimitOptions = {}) =>
      rateLimit({ policy: { capacity, tokensPerSecond: `${capacity}/d`, name: "api" }, ...more });

    it.each([
      ["with default options", {}],
      ["that is strict and case sensitive", { strict: true, caseSensitive: true }],
    ])("limits every spelling of a path with a mounted router %s", async (_, options) => {
      const accepted = await expectNoBypass(async (capacity) => {
        let reached = 0;
        const app = express();
        const router = express.Router(options);
        router.get("/item", (_request, response) => {
          reached++;
          response.send("ok");
        });
        if ("strict" in options) app.enable("case sensitive routing").enable("strict routing");
        app.use("/api", limited(capacity), router);
        return { ...(await listen(app as RequestListener)), reached: () => reached };
      });
      expect(accepted).toContain("/api/item");
      expect(accepted.includes("/API/item")).toBe(!("strict" in options));
    });

    it("limits a router, a single route, and unmatched paths", async () => {
      const app = express();
      const router = express.Router();
      router.use(limited(1));
      router.get("/x", ok);
      app.use("/router", router);
      app.get("/route/:id", limited(1), ok);
      app.get("/free", ok);
      app.use("/nothing", limited(1));
      const { url } = await served(app);
      const statuses = async (...paths: string[]) => {
        const found: number[] = [];
        for (const path of paths) found.push((await sendRequest(url, path)).status);
        return found;
      };
      expect(await statuses("/router/x", "/router/y")).toEqual([200, 429]);
      expect(await statuses("/route/1", "/route/2", "/free")).toEqual([200, 429, 200]);
      expect(await statuses("/nothing/here", "/nothing/there")).toEqual([404, 429]);
    });

    it("passes the error of key to the error middleware unchanged", async () => {
      const thrown = new Error("on purpose");
      const seen: unknown[] = [];
      const app = express();
      const fails = () => {
        throw thrown;
      };
      app.use("/now", limited(1, { key: fails }), ok);
      app.use("/later", limited(1, { key: async () => fails() }), ok);
      app.use((error: unknown, _request: Request, response: Response, _next: NextFunction) => {
        seen.push(error);
        response.status(418).send("the app's own");
      });
      const { url } = await served(app);
      for (const path of ["/now", "/later"]) {
        const { status, body, header } = await sendRequest(url, path);
        expect([status, body, header("RateLimit")]).toEqual([418, "the app's own", undefined]);
      }
      expect(seen).toEqual([thrown, thrown]);
      expect(seen[0]).toBe(thrown);
    });

    it.each([true, 1, "loopback"])("ignores the setting `trust proxy: %s`", async (trust) => {
      const app = express();
      app.set("trust proxy", trust);
      app.use("/peer", limited(2));
      app.use("/named", limited(2, { identity: { trustedProxies: ["127.0.0.1"] } }));
      app.use((request: Request, response: Response) => void response.send(request.ip));
      const { url } = await served(app);
      const from = (path: string, address: string) =>
        sendRequest(url, path, { headers: { "X-Forwarded-For": address } });
      const first = await from("/peer", "203.0.113.1");
      const second = await from("/peer", "203.0.113.2");
      // Express trusts the header, so a limiter based on request.ip would never reject.
      expect([first.body, second.body]).toEqual(["203.0.113.1", "203.0.113.2"]);
      expect((await from("/peer", "203.0.113.3")).status).toBe(429);
      for (const address of ["203.0.113.1", "203.0.113.2", "203.0.113.3"]) {
        expect((await from("/named", address)).status).toBe(200);
      }
    });

    it("captures what every method of a response sends", async () => {
      const dir = mkdtempSync(join(tmpdir(), "sluice-express-"));
      onTestFinished(() => rmSync(dir, { recursive: true }));
      writeFileSync(join(dir, "a.txt"), "a file");
      const { stored, options } = storing();
      const app = express();
      app.use(idempotent(options));
      app.post("/json", (_request, response) => void response.json({ a: 1 }));
      app.post("/text", (_request, response) => void response.status(201).send("text"));
      app.post("/bytes", (_request, response) => void response.type("bin").send(Buffer.from([0, 255])));
      app.post("/file", (_request, response) => void response.sendFile(join(dir, "a.txt")));
      app.post("/redirect", (_request, response) => void response.redirect("/json"));
      app.post("/status", (_request, response) => void response.sendStatus(204));
      app.post("/error", () => {
        throw new Error("on purpose");
      });
      app.use((_error: unknown, _request: Request, response: Response, _next: NextFunction) => {
        response.status(418).send("the app's own");
      });
      const { url } = await served(app);
      for (const path of ["/json", "/text", "/bytes", "/file", "/redirect", "/status", "/error", "/none"]) {
        const { status, body, header } = await sendRequest(url, path, newRequest());
        const last = stored.at(-1);
        expect([last?.status, last?.headers["content-type"]], path).toEqual([status, header("Content-Type")]);
        if (path !== "/bytes") expect(textOf(last), path).toBe(body);
      }
      expect(stored).toHaveLength(8);
      expect(stored[2]?.body).toEqual(new Uint8Array([0, 255]));
      expect(stored[4]).toMatchObject({ status: 302, headers: { location: "/json" } });
    });

    it("passes a captured response to an error handler as one that was sent", async () => {
      const { stored, options } = storing();
      const seen: unknown[] = [];
      const app = express();
      app.use(idempotent(options), (_request: Request, response: Response) => {
        response.send("first");
        throw new Error("too late");
      });
      app.use((_error: unknown, _request: Request, response: Response, _next: NextFunction) => {
        seen.push(response.headersSent, response.writableEnded);
      });
      const { url } = await served(app);
      expect((await sendRequest(url, "/", newRequest())).body).toBe("first");
      expect([stored.length, seen]).toEqual([1, [true, true]]);
    });

    it("reads a solution that a parser has read, at a path that a router is mounted at", async () => {
      const app = express();
      app.use(express.json(), express.urlencoded(), express.text());
      app.use("/api", rateLimit(solving("/api/clearance")), ok);
      const { url } = await served(app);
      for (const [type, body] of [
        ["application/json", '{"token":"solved"}'],
        ["application/x-www-form-urlencoded", "token=solved"],
        ["text/plain", "token=solved"],
        ["application/octet-stream", "token=solved"],
      ] as const) {
        const headers = { "Content-Type": type };
        const solved = await fetch(new URL("/api/clearance?a=1", url), { method: "POST", headers, body });
        expect(solved.status, type).toBe(204);
      }
    });

    it("counts static files, and omits fields on publicly cacheable ones", async () => {
      const dir = mkdtempSync(join(tmpdir(), "sluice-express-"));
      onTestFinished(() => rmSync(dir, { recursive: true }));
      writeFileSync(join(dir, "a.txt"), "a file");
      const app = express();
      app.use(limited(3));
      app.use("/own", express.static(dir, { cacheControl: false }));
      app.use("/public", express.static(dir));
      const { url } = await served(app);
      const own = await sendRequest(url, "/own/a.txt");
      expect([own.status, own.body, own.header("RateLimit")?.slice(0, 9)]).toEqual([200, "a file", '"api";r=2']);
      const shared = await sendRequest(url, "/public/a.txt");
      expect([shared.status, shared.header("Cache-Control"), shared.header("RateLimit")]).toEqual([
        200,
        "public, max-age=0",
        undefined,
      ]);
      const etag = own.header("ETag") as string;
      const unchanged = await sendRequest(url, "/own/a.txt", { headers: { "If-None-Match": etag } });
      expect([unchanged.status, unchanged.header("RateLimit")]).toEqual([304, undefined]);
      expect((await sendRequest(url, "/own/a.txt", { headers: { "If-None-Match": etag } })).status).toBe(429);
    });
  });
}
