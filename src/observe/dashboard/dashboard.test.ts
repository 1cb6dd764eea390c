/** Tests of the dashboard's handler: its page, its events and its look-up. */
import { createLimiter, memoryRateLimiter } from "sluice";
import { createObserver, type Dashboard, type DashboardOptions, dashboard } from "sluice/observe";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { ICON, renderPage } from "./page.ts";
import { SCRIPT } from "./page-script.ts";
import { STYLE } from "./page-style.ts";

afterEach(() => {
  vi.useRealTimers();
});

const BASE = "http://127.0.0.1:8787/_sluice";

function open(options: Partial<DashboardOptions> = {}, observer = createObserver()): Dashboard {
  const handler = dashboard(observer, { authorize: () => true, ...options });
  onTestFinished(() => handler.dispose());
  return handler;
}

const ask = (handler: Dashboard, path = "", init: RequestInit = {}) => handler(new Request(`${BASE}${path}`, init));
const look = (handler: Dashboard, body: unknown, headers: Record<string, string> = JSON_TYPE) =>
  ask(handler, "/key", { method: "POST", headers, body: typeof body === "string" ? body : JSON.stringify(body) });
const JSON_TYPE = { "Content-Type": "application/json" };

describe("dashboard", () => {
  it("needs authorize, and an observer", () => {
    const observer = createObserver();
    expect(() => dashboard(observer, undefined as never)).toThrow(
      "authorize: missing; pass a function that decides who may see the dashboard",
    );
    expect(() => dashboard(observer, {} as never)).toThrow(expect.objectContaining({ code: "invalid-option" }));
    expect(() => dashboard(observer, { authorize: true } as never)).toThrow("authorize must be a function");
    expect(() => dashboard(observer, { authorize: () => true, rules: {} } as never)).toThrow("defineRules()");
    expect(() => dashboard(observer, { authorize: () => true, path: "/x" } as never)).toThrow(
      '"path" is not an option',
    );
    expect(() => dashboard({} as never, { authorize: () => true })).toThrow("createObserver()");
    expect(() => dashboard(undefined as never, { authorize: () => true })).toThrow("createObserver()");
  });

  it("serves its parts below any path, with the same security headers", async () => {
    const handler = open();
    const types: Record<string, string | null> = {};
    for (const path of ["", "/", "/app.js", "/app.css", "/icon.svg", "/data"]) {
      const response = await ask(handler, path);
      expect(response.status, path).toBe(200);
      types[path] = response.headers.get("content-type");
      expect(response.headers.get("content-security-policy")).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      );
      expect(response.headers.get("x-content-type-options")).toBe("nosniff");
      expect(response.headers.get("referrer-policy")).toBe("no-referrer");
      expect(response.headers.get("cache-control")).toBe("no-store, no-transform");
      expect(response.headers.get("cross-origin-resource-policy")).toBe("same-origin");
    }
    expect(types).toEqual({
      "": "text/html; charset=utf-8",
      "/": "text/html; charset=utf-8",
      "/app.js": "text/javascript; charset=utf-8",
      "/app.css": "text/css; charset=utf-8",
      "/icon.svg": "image/svg+xml; charset=utf-8",
      "/data": "application/json; charset=utf-8",
    });
    for (const path of ["/favicon.ico", "/app.js.map"]) expect((await ask(handler, path)).status).toBe(404);
    const put = await ask(handler, "/data", { method: "PUT" });
    expect([put.status, put.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
    expect((await ask(handler, "/key")).headers.get("allow")).toBe("POST");
  });

  it("has relative URLs that fit the address of the page", async () => {
    const urlIn = async (path: string) => {
      const page = await (await open()(new Request(`http://localhost${path}`))).text();
      return new URL(/src="([^"]+app\.js)"/.exec(page)?.[1] ?? "", `http://localhost${path}`).pathname;
    };
    expect(await urlIn("/")).toBe("/app.js");
    expect(await urlIn("/_sluice")).toBe("/_sluice/app.js");
    expect(await urlIn("/_sluice/")).toBe("/_sluice/app.js");
    expect(await urlIn("/admin/a:b?x=1")).toBe("/admin/a:b/app.js");
  });

  it("escapes the path in the page", async () => {
    const page = await (await open()(new Request(`http://localhost/"><script>alert(1)</script>&`))).text();
    expect(page).not.toContain("<script>alert");
    expect(renderPage('./"<>&/')).not.toMatch(/="[^"]*[<>][^"]*"/);
    expect(page).not.toMatch(/ (?:on\w+|style)=["']/);
    expect(SCRIPT).not.toMatch(/innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|Function\(/);
  });

  it("has at most 25 kB in total", () => {
    const bytes = [renderPage("./_sluice/"), SCRIPT, STYLE, ICON].map((text) => new TextEncoder().encode(text).length);
    expect(bytes.reduce((sum, count) => sum + count, 0)).toBeLessThanOrEqual(25_000);
  });

  it("can be created where timers are not allowed yet, as in a Worker before its first request", async () => {
    vi.useFakeTimers();
    const start = vi.spyOn(globalThis, "setInterval").mockImplementationOnce(() => {
      throw new Error("Disallowed operation called within global scope");
    });
    onTestFinished(() => start.mockRestore());
    const handler = open();
    expect(vi.getTimerCount()).toBe(0);
    for (let i = 0; i < 2; i++) expect((await ask(handler)).status).toBe(200);
    expect(vi.getTimerCount()).toBe(1);
  });

  it("does nothing after dispose", async () => {
    vi.useFakeTimers();
    const handler = open();
    const reader = ((await ask(handler, "/events")).body as ReadableStream<Uint8Array>).getReader();
    // The interval for reconnecting, and the data.
    for (let i = 0; i < 2; i++) await reader.read();
    expect(vi.getTimerCount()).toBe(1);
    handler.dispose();
    expect(vi.getTimerCount()).toBe(0);
    expect((await reader.read()).done).toBe(true);
    expect((await ask(handler)).status).toBe(503);
  });
});

describe("events", () => {
  const reading = (response: Response) => {
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const next = async () => {
      for (;;) {
        const { value } = await reader.read();
        const data = /^data: (.*)$/m.exec(new TextDecoder().decode(value))?.[1];
        if (data !== undefined) return JSON.parse(data);
      }
    };
    return { next, cancel: () => reader.cancel() };
  };

  it("sends a message at once and then every second", async () => {
    vi.useFakeTimers();
    const observer = createObserver();
    const limiter = createLimiter({ policy: { capacity: 1, tokensPerSecond: 1, name: "api" }, observer });
    const response = await ask(open({}, observer), "/events");
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(response.headers.get("x-accel-buffering")).toBe("no");
    const stream = reading(response);
    expect((await stream.next()).totals).toEqual({ allowed: 0, denied: 0, wouldDeny: 0, degraded: 0 });
    for (let i = 0; i < 3; i++) limiter.consumeSync("a");
    vi.advanceTimersByTime(1000);
    expect(await stream.next()).toMatchObject({
      unit: "decisions",
      totals: { allowed: 1, denied: 2, wouldDeny: 0, degraded: 0 },
      rules: [{ name: "api", requests: 3, denied: 2, mode: "enforce" }],
      topKeys: [{ rule: "api", atLeast: 2 }],
    });
  });

  it("has at most 20 connections, and one more after one is closed", async () => {
    const handler = open();
    const streams = [];
    for (let i = 0; i < 20; i++) streams.push(reading(await ask(handler, "/events")));
    const refused = await ask(handler, "/events");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "5"]);
    await streams[7]?.cancel();
    expect((await ask(handler, "/events")).status).toBe(200);
    expect((await ask(handler, "/events")).status).toBe(503);
  });

  it("closes connections that are old, and those that are not read", async () => {
    vi.useFakeTimers();
    const handler = open();
    const read = reading(await ask(handler, "/events"));
    for (let i = 0; i < 19; i++) await ask(handler, "/events");
    for (let second = 0; second < 31; second++) {
      await read.next();
      vi.advanceTimersByTime(1000);
    }
    // The one that is read is left.
    for (let i = 0; i < 19; i++) expect((await ask(handler, "/events")).status).toBe(200);
    expect((await ask(handler, "/events")).status).toBe(503);
    vi.advanceTimersByTime(600_000);
    expect((await ask(handler, "/events")).status).toBe(200);
  });
});

describe("look up", () => {
  it("reads the key from the body only, and never returns it", async () => {
    const observer = createObserver();
    const limiter = observer.wrap(memoryRateLimiter({ capacity: 5, tokensPerSecond: 1, name: "api" }));
    await limiter.consume("canary-key", 3);
    const handler = open({}, observer);
    const text = await (await look(handler, { key: " canary-key " })).text();
    expect(text).not.toContain("canary");
    expect(JSON.parse(text).entries).toMatchObject([
      { policy: "api", as: "typed", found: true, remaining: 2, limit: 5 },
    ]);
    for (const body of ["", "[]", "null", "{}", '{"key":""}', '{"key":" "}', '{"key":1}']) {
      expect((await look(handler, body)).status, body).toBe(400);
    }
    expect((await look(handler, { key: "k".repeat(513) })).status).toBe(400);
    expect((await look(handler, { key: "k".repeat(5000) })).status).toBe(413);
    expect((await look(handler, { key: "a" }, { "Content-Type": "text/plain" })).status).toBe(400);
  });
});
