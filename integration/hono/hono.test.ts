/** `sluice/hono` in real apps of Hono 4 on Node. */
import { createServer } from "node:http";
import { Hono } from "hono";
import { compress } from "hono/compress";
import { cors } from "hono/cors";
import { etag } from "hono/etag";
import { HTTPException } from "hono/http-exception";
import { streamText } from "hono/streaming";
import { type HonoRateLimitOptions, idempotent, rateLimit } from "sluice/hono";
import { describe, expect, it, onTestFinished } from "vitest";
import { listen } from "../../test/middleware/mount.ts";
import { sendRequest } from "../send-request.ts";
import { serverSuite } from "../server-suite.ts";
import { solving } from "../solving.ts";
import { expectNoBypass } from "../spellings.ts";
import { newRequest, storing, textOf } from "../stored-responses.ts";
import { honoApp, kit } from "./app.ts";
import { served } from "./served.ts";

serverSuite("Hono 4 on Node", { kit, start: (routes) => served(honoApp(routes)) });

const limited = (capacity: number, more: HonoRateLimitOptions = {}) =>
  rateLimit({ policy: { capacity, tokensPerSecond: `${capacity}/d`, name: "api" }, ...more });

async function started(app: Hono): Promise<string> {
  const { url, close } = await served(app);
  onTestFinished(close);
  return url;
}

const statuses = async (url: string, ...paths: string[]) => {
  const found: number[] = [];
  for (const path of paths) found.push((await sendRequest(url, path)).status);
  return found;
};

describe("Hono 4, beyond the suite", () => {
  it.each([
    ["strict", true],
    ["not strict", false],
  ])("limits every spelling of a path with a nested app that is %s", async (_, strict) => {
    for (const nested of [true, false]) {
      const accepted = await expectNoBypass(async (capacity) => {
        let reached = 0;
        const app = new Hono({ strict });
        app.use("/api/*", limited(capacity));
        const handler = () => new Response(`${++reached}`);
        if (nested) app.route("/api", new Hono({ strict }).get("/item", handler));
        else app.get("/api/item", handler);
        return { ...(await served(app)), reached: () => reached };
      });
      expect(accepted).toContain("/api/item");
      expect(accepted.includes("/api/item/")).toBe(!strict);
    }
  });

  it("limits a nested app only, a single route, and unmatched paths", async () => {
    const inner = new Hono().use(limited(1)).get("/a", (c) => c.text("ok"));
    const app = new Hono()
      .route("/inner", inner)
      .get("/route/:id", limited(1), (c) => c.text("ok"))
      .get("/free", (c) => c.text("ok"))
      .use("/nothing/*", limited(1));
    const url = await started(app);
    expect(await statuses(url, "/inner/a", "/inner/b")).toEqual([200, 429]);
    expect(await statuses(url, "/route/1", "/route/2")).toEqual([200, 429]);
    expect(await statuses(url, "/nothing/here", "/nothing/there")).toEqual([404, 429]);
    expect(await statuses(url, "/free", "/free", "/free")).toEqual([200, 200, 200]);
  });

  it.each([
    ["before", true],
    ["after", false],
  ])("works with hono/cors %s it", async (_, first) => {
    const app = new Hono();
    const origin = "https://elsewhere.example";
    const both = [cors({ origin, exposeHeaders: ["X-Own"] }), limited(1)] as const;
    app.use(...(first ? both : ([both[1], both[0]] as const)));
    app.get("/", (c) => c.text("ok"));
    const url = await started(app);
    const preflight = { method: "OPTIONS", headers: { Origin: origin, "Access-Control-Request-Method": "GET" } };
    expect((await sendRequest(url, "/", preflight)).status).toBe(204);
    for (const status of [200, 429]) {
      const response = await sendRequest(url, "/", { headers: { Origin: origin } });
      expect(response.status).toBe(status);
      expect(response.header("RateLimit-Policy")).toBe('"api";q=1;w=86400');
      // A middleware after the limiter does not run for rejected requests.
      if (!first && status === 429) continue;
      expect(response.header("Access-Control-Allow-Origin")).toBe(origin);
      const exposed = (response.header("Access-Control-Expose-Headers") ?? "").split(/, ?/);
      expect(exposed.sort()).toEqual(["RateLimit", "RateLimit-Policy", "Retry-After", "X-Own"]);
    }
    expect((await sendRequest(url, "/", preflight)).status).toBe(204);
  });

  it("passes the error of key to app.onError unchanged", async () => {
    const thrown = new Error("on purpose");
    const fails = () => {
      throw thrown;
    };
    const seen: unknown[] = [];
    const app = new Hono();
    app.get("/now", limited(1, { key: fails }), (c) => c.text("ok"));
    app.get("/later", limited(1, { key: async () => fails() }), (c) => c.text("ok"));
    app.onError((error, c) => {
      seen.push(error);
      return c.text("the app's own", 418);
    });
    const url = await started(app);
    for (const path of ["/now", "/later"]) {
      const { status, body, header } = await sendRequest(url, path);
      expect([status, body, header("RateLimit")]).toEqual([418, "the app's own", undefined]);
    }
    expect(seen[0]).toBe(thrown);
    expect(seen[1]).toBe(thrown);
  });

  it("adds its fields to an immutable response of fetch, and keeps its headers", async () => {
    const origin = createServer((_request, response) => {
      response.writeHead(203, { "X-Origin": "yes", "Content-Type": "text/csv" }).end("a,b");
    });
    const { url: upstream, close } = await listen((...call) => origin.emit("request", ...call));
    onTestFinished(close);
    const app = new Hono();
    app.use(limited(2), limited(3, { policy: { capacity: 3, tokensPerSecond: "3/d", name: "inner" } }));
    app.get("/", () => fetch(upstream));
    app.get("/redirect", () => Response.redirect("https://elsewhere.example/", 302));
    const url = await started(app);
    const response = await sendRequest(url, "/");
    expect([response.status, response.body]).toEqual([203, "a,b"]);
    expect([response.header("X-Origin"), response.header("Content-Type")]).toEqual(["yes", "text/csv"]);
    expect(response.header("RateLimit-Policy")?.split(", ").sort()).toEqual([
      '"api";q=2;w=86400',
      '"inner";q=3;w=86400',
    ]);
    const redirect = await sendRequest(url, "/redirect");
    expect([redirect.status, redirect.header("Location")]).toEqual([302, "https://elsewhere.example/"]);
  });

  it("adds its fields to every kind of response", async () => {
    const app = new Hono();
    app.use(limited(100));
    app.get("/json", (c) => c.json({ ok: true }));
    app.get("/empty", (c) => c.body(null, 204));
    app.get("/stream", (c) => streamText(c, async (stream) => void (await stream.write("ok"))));
    app.get("/thrown", () => {
      throw new HTTPException(418, { message: "teapot" });
    });
    app.get("/compressed", compress({ threshold: 1 }), (c) => c.text("a".repeat(5000)));
    app.get("/tagged", etag(), (c) => c.text("ok"));
    const url = await started(app);
    const headers = { "Accept-Encoding": "gzip" };
    for (const path of ["/json", "/empty", "/stream", "/thrown", "/compressed", "/tagged", "/none"]) {
      expect((await sendRequest(url, path, { headers })).header("RateLimit"), path).toMatch(/^"api";r=\d+;t=\d+$/);
    }
    expect((await sendRequest(url, "/compressed", { headers })).header("Content-Encoding")).toBe("gzip");
    const tag = (await sendRequest(url, "/tagged")).header("ETag") as string;
    const unchanged = await sendRequest(url, "/tagged", { headers: { "If-None-Match": tag } });
    expect([unchanged.status, unchanged.header("RateLimit")]).toEqual([304, undefined]);
  });

  it("captures every kind of response, and sets fields on it", async () => {
    const { stored, options } = storing();
    const app = new Hono();
    app.use(idempotent(options), rateLimit(solving()));
    app.post("/json", (c) => c.json({ a: 1 }));
    app.post("/empty", (c) => c.body(null, 204));
    app.post("/stream", (c) => streamText(c, (stream) => stream.write("text").then(() => {})));
    app.post("/redirect", () => Response.redirect("https://elsewhere.example/", 302));
    app.post("/error", () => {
      throw new HTTPException(418, { message: "teapot" });
    });
    const url = await started(app);
    const paths = ["/json", "/empty", "/stream", "/redirect", "/error", "/none"];
    for (const path of paths) {
      const { method, headers } = newRequest();
      const solved = { ...headers, "Sluice-Challenge-Token": "solved", "User-Agent": "test" };
      const { status, body, header } = await sendRequest(url, path, { method, headers: solved });
      const last = stored.at(-1);
      expect([last?.status, last?.headers["content-type"]], path).toEqual([status, header("Content-Type")]);
      expect(textOf(last), path).toBe(body);
      expect(header("Set-Cookie"), path).toContain(`=${header("Sluice-Clearance")};`);
    }
    expect(stored).toHaveLength(paths.length);
  });

  it("throws for a request without a socket", async () => {
    const errors: unknown[] = [];
    const app = new Hono().use(limited(1)).get("/", (c) => c.text("ok"));
    app.onError((error, c) => {
      errors.push(error);
      return c.text("", 500);
    });
    expect((await app.request("/")).status).toBe(500);
    expect(errors).toMatchObject([{ code: "unidentified" }]);
    const socket = { incoming: { socket: { remoteAddress: "203.0.113.1" } } };
    expect((await app.request("/", {}, socket)).status).toBe(200);
    expect((await app.request("/", {}, socket)).status).toBe(429);
  });
});
