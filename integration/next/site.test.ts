/** Pages of Next.js 16 behind a proxy on Node and a middleware on the edge runtime, and a Server Action. */
import { fileURLToPath } from "node:url";
import type { RunningServer } from "sluice/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { build, installPacked, node24, startServer } from "../built-app.ts";
import { asAddress, withFrontProxy } from "../front-proxy.ts";

const here = fileURLToPath(new URL(".", import.meta.url));
const NEXT = "node_modules/next/dist/bin/next";
const env = { NEXT_TELEMETRY_DISABLED: "1" };

describe.each([
  ["proxy.js on Node", "site"],
  ["middleware.js on the edge runtime", "edge"],
])("a page load with 20 static files, %s", (_, folder) => {
  let server: RunningServer;
  beforeAll(async () => {
    installPacked(here);
    await build(node24, [NEXT, "build", folder], here, env);
    const args = [NEXT, "start", folder, "-H", "127.0.0.1", "-p", "$PORT"];
    server = await withFrontProxy(await startServer(node24, args, here, env));
  });
  afterAll(() => server?.close());

  const get = (path: string, headers = {}) => fetch(new URL(path, server.url), { headers });
  const decided = async () => (await (await get("/decided")).json()) as [path: string, key: string][];

  it("makes one decision, that of the page (seed 001)", async () => {
    const page = await get("/");
    expect(page.status).toBe(200);
    expect(page.headers.get("RateLimit-Policy")).toBe('"100/m";q=100;w=60');
    const html = await page.text();
    const files = [
      ...new Set([...html.matchAll(/(?:src|href)="(\/(?:_next|img)\/[^"]+)"/g)].map(([, path]) => path as string)),
    ];
    expect(files.filter((path) => path.startsWith("/img/"))).toHaveLength(20);
    expect(files.some((path) => path.startsWith("/_next/static/"))).toBe(true);
    for (const path of files) expect((await get(path)).status, path).toBe(200);
    expect((await decided()).map(([path]) => path)).toEqual(["/", "/decided"]);
  });

  it("does not let a client choose its bucket by X-Forwarded-For", async () => {
    for (const forged of ["9.9.9.9", "8.8.8.8, 7.7.7.7"]) {
      await get("/", { ...asAddress("203.0.113.9"), "X-Forwarded-For": forged, "X-Real-IP": "6.6.6.6" });
    }
    const keys = (await decided()).filter(([path]) => path === "/").map(([, key]) => key);
    expect(keys.slice(-2)).toEqual(["ip:203.0.113.9", "ip:203.0.113.9"]);
  });

  if (folder !== "site") return;
  it("limits a Server Action per client", async () => {
    const submit = async (address: string) => {
      const html = await (await get("/")).text();
      const [, name = ""] = /name="(\$ACTION_ID_[^"]+)"/.exec(html) ?? [];
      const body = new FormData();
      body.set(name, "");
      await fetch(server.url, { method: "POST", body, headers: asAddress(address) });
    };
    for (let i = 0; i < 4; i++) await submit("203.0.113.10");
    await submit("203.0.113.11");
    expect((await (await get("/")).text()).replaceAll("<!-- -->", "")).toContain("sent 3, limited 2");
  });
});
