/** Tests of the dashboard's handler: who may see it, what it sends, and what it costs. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createLimiter, memoryRateLimiter } from "sluice";
import { rateLimit } from "sluice/fetch";
import { createObserver, type Dashboard, type DashboardOptions, dashboard, loopbackToken } from "sluice/observe";
import { defineRules } from "sluice/rules";
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

describe("authorize", () => {
  it("is called for every request, and only true admits", async () => {
    const paths: string[] = [];
    const handler = open({
      authorize: async (request) => {
        paths.push(new URL(request.url).pathname);
        return true;
      },
    });
    const all = ["", "/app.js", "/app.css", "/icon.svg", "/data", "/events", "/key", "/other.txt"];
    for (const path of all) await ask(handler, path);
    expect(paths).toEqual(all.map((path) => `/_sluice${path}`));
    for (const result of [false, undefined, 1, "yes", {}, Promise.resolve(false)]) {
      const refusing = open({ authorize: () => result as boolean });
      for (const path of all) {
        const response = await ask(refusing, path);
        expect([response.status, await response.text()]).toEqual([403, "Forbidden\n"]);
      }
    }
  });

  it("is a 403 and one process warning if it throws", async () => {
    const warn = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    onTestFinished(() => warn.mockRestore());
    for (const authorize of [
      () => {
        throw new Error("no session");
      },
      () => Promise.reject(new Error("no session")),
    ]) {
      warn.mockClear();
      const handler = open({ authorize });
      expect((await ask(handler)).status).toBe(403);
      expect((await ask(handler, "/data")).status).toBe(403);
      expect(warn.mock.calls.map(([text]) => text)).toEqual([expect.stringContaining("no session")]);
    }
  });

  it("does not see requests of other sites", async () => {
    let calls = 0;
    const handler = open({ authorize: () => ++calls > 0 });
    const status = async (path: string, headers: Record<string, string>, method = "GET") =>
      (await ask(handler, path, { method, headers })).status;
    const cross = { "Sec-Fetch-Site": "cross-site" };
    const navigation = { "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document" };
    expect(await status("/data", { Origin: "https://evil.example" })).toBe(403);
    expect(await status("/data", { Origin: "null" })).toBe(403);
    expect(await status("/data", { Origin: "http://127.0.0.1:9999" })).toBe(403);
    expect(await status("/data", { Host: "evil.example", Origin: "http://127.0.0.1:8787" })).toBe(403);
    expect(await status("/data", cross)).toBe(403);
    expect(await status("/data", { "Sec-Fetch-Site": "same-site" })).toBe(403);
    expect(await status("/data", { ...cross, ...navigation })).toBe(403);
    expect(await status("", { ...cross, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe" })).toBe(403);
    expect(await status("", { ...cross, ...navigation }, "POST")).toBe(403);
    expect(await status("/key", { Origin: "https://evil.example", ...JSON_TYPE }, "POST")).toBe(403);
    expect(calls).toBe(0);
    expect(await status("/data", { Origin: "http://127.0.0.1:8787", "Sec-Fetch-Site": "same-origin" })).toBe(200);
    expect(await status("/data", { Host: "app.example", Origin: "https://app.example" })).toBe(200);
    expect(await status("/data", { Host: "app.example:443", Origin: "https://app.example" })).toBe(200);
    expect(await status("", { ...cross, ...navigation })).toBe(200);
    expect(await status("", { "Sec-Fetch-Site": "none" })).toBe(200);
  });
});

describe("loopbackToken", () => {
  const access = loopbackToken();
  const cookie = `sluice-dashboard-8787=${access.token}`;
  const statusOf = async (path: string, headers: Record<string, string> = {}) =>
    (await ask(open({ authorize: access.authorize }), path, { headers })).status;

  it("has 256 bits", () => {
    expect(access.token).toMatch(/^[A-Za-z0-9_-]{43}$/);
    expect(loopbackToken().token).not.toBe(access.token);
  });

  it.each<[string, string, Record<string, string>, number]>([
    ["no token", "/data", {}, 403],
    ["the cookie", "/data", { Cookie: `a=b; ${cookie}` }, 200],
    ["a wrong cookie", "/data", { Cookie: `sluice-dashboard-8787=${loopbackToken().token}` }, 403],
    ["the cookie of another port", "/data", { Cookie: `sluice-dashboard-1=${access.token}` }, 403],
    ["two cookies, one of them right", "/data", { Cookie: `sluice-dashboard-8787=x; ${cookie}` }, 200],
    ["a bearer token", "/data", { Authorization: `Bearer ${access.token}` }, 200],
    ["a wrong bearer token", "/data", { Authorization: `Bearer ${access.token}x` }, 403],
    ["the token in the address", `/data?token=${access.token}`, {}, 200],
    ["a wrong token in the address", "/data?token=wrong", {}, 403],
    ["an empty token in the address, and the cookie", "/data?token=", { Cookie: cookie }, 403],
    ["localhost", "/data", { Host: "localhost:8787", Cookie: cookie }, 200],
    ["IPv6", "/data", { Host: "[::1]:8787", Cookie: cookie }, 200],
    ["upper case", "/data", { Host: "LOCALHOST:8787", Cookie: cookie }, 200],
    ["a foreign host", "/data", { Host: "evil.example:8787", Cookie: cookie }, 403],
    [
      "a host that starts like a loopback address",
      "/data",
      { Host: "127.0.0.1.evil.example:8787", Cookie: cookie },
      403,
    ],
    ["a foreign origin", "/data", { Origin: "https://evil.example", Cookie: cookie }, 403],
  ])("with %s", async (_, path, headers, status) => {
    expect(await statusOf(path, headers)).toBe(status);
  });

  it("is exchanged for a cookie, and removed from the address", async () => {
    const handler = open({ authorize: access.authorize });
    const exchanged = await ask(handler, `?a=1&token=${access.token}`);
    expect(exchanged.status).toBe(303);
    expect(new URL(exchanged.headers.get("location") ?? "", BASE).href).toBe(`${BASE}?a=1`);
    expect(exchanged.headers.get("set-cookie")).toBe(`${cookie}; Path=/_sluice; HttpOnly; SameSite=Strict`);
    expect(exchanged.headers.get("referrer-policy")).toBe("no-referrer");
    const withSlash = await ask(handler, `/?token=${access.token}`);
    expect(new URL(withSlash.headers.get("location") ?? "", `${BASE}/`).href).toBe(`${BASE}/`);
    const atRoot = await handler(new Request(`http://localhost:8787/?token=${access.token}`));
    expect(atRoot.headers.get("set-cookie")).toContain("; Path=/;");
  });

  it("leaves a parameter of this name to other functions", async () => {
    expect((await ask(open(), "?token=of-the-application")).status).toBe(200);
  });
});

describe("the limit", () => {
  it("allows 50 authorised requests at once and 10 per second", async () => {
    vi.useFakeTimers();
    let isAdmitted = false;
    const handler = open({ authorize: () => isAdmitted });
    const statuses = async (count: number) => {
      const all: number[] = [];
      for (let i = 0; i < count; i++) all.push((await ask(handler, "/app.css")).status);
      return { 200: all.filter((one) => one === 200).length, 429: all.filter((one) => one === 429).length };
    };
    // Strangers don't use it up.
    expect(await statuses(100)).toEqual({ 200: 0, 429: 0 });
    isAdmitted = true;
    expect(await statuses(60)).toEqual({ 200: 50, 429: 10 });
    expect((await ask(handler)).headers.get("retry-after")).toBe("1");
    vi.advanceTimersByTime(1000);
    expect(await statuses(20)).toEqual({ 200: 10, 429: 10 });
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

describe("memory", () => {
  it("stays below 1 MB with 512 rules and 20 connections that are not read", async () => {
    const observer = createObserver();
    const rules = defineRules(
      {
        rules: Array.from({ length: 512 }, (_, i) => {
          return { name: `rule-${i}`, match: `GET /path-${i}`, limits: { ip: "5/h" } } as const;
        }),
        fallback: "unlimited",
      },
      { observer },
    );
    const limit = rateLimit({ rules, observer, identity: { trustedProxies: 1 } });
    const handle = limit(() => new Response("ok"));
    const send = async () => {
      const headers = { "x-forwarded-for": "203.0.113.7" };
      for (let i = 0; i < 512; i++) {
        await (handle as (request: Request, server: object) => Promise<Response>)(
          new Request(`http://localhost/path-${i}`, { headers }),
          { remoteAddr: { hostname: "127.0.0.1" } },
        );
      }
    };
    await send();
    setFlagsFromString("--expose-gc");
    const gc = runInNewContext("gc") as () => void;
    const used = async () => {
      // Weak references are cleared between two collections.
      for (let i = 0; i < 4; i++) {
        gc();
        await new Promise(setImmediate);
      }
      // External memory contains the buffers of typed arrays.
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    vi.useFakeTimers({ toFake: ["setInterval", "performance"] });
    const fill = async () => {
      const handler = dashboard(observer, { authorize: () => true, rules });
      const bodies: unknown[] = [];
      for (let i = 0; i < 20; i++) bodies.push((await ask(handler, "/events")).body);
      for (let second = 0; second < 25; second += 5) {
        await send();
        vi.advanceTimersByTime(5000);
      }
      return { handler, bodies };
    };
    // The first ones also compile code and fill the counters of the observer.
    for (let i = 0; i < 2; i++) (await fill()).handler.dispose();
    const before = await used();
    const kept = [];
    for (let i = 0; i < 4; i++) kept.push(await fill());
    const bytes = ((await used()) - before) / kept.length;
    const [{ handler, bodies }] = kept as [Awaited<ReturnType<typeof fill>>];
    const { rules: rows, moreRules } = await (await ask(handler, "/data")).json();
    expect([rows.length, moreRules, bodies.length]).toEqual([50, 462, 20]);
    expect(bytes).toBeGreaterThan(100_000);
    expect(bytes).toBeLessThan(1_000_000);
    for (const { handler } of kept) handler.dispose();
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
