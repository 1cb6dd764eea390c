/** Tests of who may see the dashboard, and how often. */
import { createObserver, type Dashboard, type DashboardOptions, dashboard, loopbackToken } from "sluice/observe";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";

afterEach(() => {
  vi.useRealTimers();
});

const BASE = "http://127.0.0.1:8787/_sluice";

function open(options: Partial<DashboardOptions> = {}): Dashboard {
  const handler = dashboard(createObserver(), { authorize: () => true, ...options });
  onTestFinished(() => handler.dispose());
  return handler;
}

const ask = (handler: Dashboard, path = "", init: RequestInit = {}) => handler(new Request(`${BASE}${path}`, init));

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
    const handler = open({ authorize: () => ++calls > 0, hosts: ["app.example"] });
    const status = async (path: string, headers: Record<string, string>, method = "GET") =>
      (await ask(handler, path, { method, headers })).status;
    const cross = { "Sec-Fetch-Site": "cross-site" };
    const navigation = { "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document" };
    expect(await status("/data", { Origin: "https://evil.example" })).toBe(403);
    expect(await status("/data", { Origin: "null" })).toBe(403);
    expect(await status("/data", { Origin: "http://127.0.0.1:9999" })).toBe(403);
    expect(await status("/data", { Host: "app.example", Origin: "http://127.0.0.1:8787" })).toBe(403);
    expect(await status("/data", cross)).toBe(403);
    expect(await status("/data", { "Sec-Fetch-Site": "same-site" })).toBe(403);
    expect(await status("/data", { ...cross, ...navigation })).toBe(403);
    expect(await status("", { ...cross, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe" })).toBe(403);
    expect(await status("", { ...cross, ...navigation }, "POST")).toBe(403);
    expect(await status("/key", { Origin: "https://evil.example", "Content-Type": "application/json" }, "POST")).toBe(
      403,
    );
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
    ["a foreign host", "/data", { Host: "evil.example:8787", Cookie: cookie }, 421],
    [
      "a host that starts like a loopback address",
      "/data",
      { Host: "127.0.0.1.evil.example:8787", Cookie: cookie },
      421,
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

describe("hosts", () => {
  const hosts = ["Ops.example.com", "admin.example.com:8443"];
  it.each<[string, number]>([
    ["127.0.0.1:8787", 200],
    ["localhost", 200],
    ["[::1]:8787", 200],
    ["10.1.2.3:80", 200],
    ["ops.example.com", 200],
    ["OPS.example.com:3000", 200],
    ["admin.example.com:8443", 200],
    ["admin.example.com", 421],
    ["evil.example", 421],
    ["evil.example:8787", 421],
    ["127.0.0.1.evil.example", 421],
    ["localhost.evil.example", 421],
    ["ops.example.com.evil.example", 421],
    ["", 421],
  ])("%s gets %i, whatever authorize returns", async (host, status) => {
    let calls = 0;
    const handler = open({ hosts, authorize: () => ++calls > 0 });
    const response = await ask(handler, "/data", { headers: { Host: host } });
    expect([response.status, calls]).toEqual([status, status === 421 ? 0 : 1]);
    if (status === 421) expect(await response.text()).toMatch(/Add its name to the option hosts of dashboard\(\)/);
  });

  it.each([
    ["ops.example.com"],
    [["https://ops.example.com"]],
    [["ops.example.com/x"]],
    [["*"]],
    [[""]],
    [[1]],
    [null],
  ])("refuse %j", (given) => {
    expect(() => open({ hosts: given as never })).toThrow(/hosts/);
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
