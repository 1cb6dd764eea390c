/** The dashboard in Chromium, on a real server. */
import { Redis } from "ioredis";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { block, createLimiter, penalty } from "sluice";
import { redisStore } from "sluice/redis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { startRedis } from "../../test/servers/redis-server.js";
import { launchChromium } from "./chromium.ts";
import { type DashboardAppOptions, SCRIPT_NAME, startDashboardApp, statusOf } from "./dashboard-app.ts";
import { consoleErrors, findings, overflows, screenshot } from "./inspect-page.ts";

let browser: Browser;
beforeAll(async () => {
  browser = await launchChromium();
});
afterAll(() => browser?.close());

type App = Awaited<ReturnType<typeof startDashboardApp>>;

async function start(options: DashboardAppOptions = {}): Promise<App> {
  const app = await startDashboardApp(options);
  onTestFinished(() => app.close());
  return app;
}

/** Opens the printed address, and waits for the first data. */
async function open({ page: address, access }: App, context: BrowserContextOptions = {}) {
  const session = await browser.newContext({ locale: "en-GB", ...context });
  onTestFinished(() => session.close());
  const page = await session.newPage();
  const problems = consoleErrors(page);
  await page.goto(`${address}?token=${access.token}`);
  await status(page, "Live");
  return { page, problems };
}

const status = (page: Page, text: string) => page.getByRole("status").filter({ hasText: text }).waitFor();

/** The numbers of the legend and of the totals. */
const numbers = async (page: Page) => ({
  allowed: await page.locator("#sum-allowed").textContent(),
  denied: await page.locator("#sum-denied").textContent(),
  wouldDeny: await page.locator("#sum-wouldDeny").textContent(),
  totals: await page.locator("#totals").textContent(),
});

const rowOf = (page: Page, rule: string) => page.locator("#rules tbody tr").filter({ hasText: rule });

describe("the dashboard", () => {
  it("has seven blocks, which are exact after 1000 requests and follow within 2 s", async () => {
    const app = await start();
    const { page, problems } = await open(app);
    const headings = await page.getByRole("heading", { level: 2 }).allTextContents();
    expect(headings).toEqual([
      "Health",
      "Last 15 minutes",
      "Rules by denials",
      "Most denied keys",
      "Look up a key",
      "Shadow rules",
      "Events",
    ]);
    await page.getByText("No denials in the last 10 minutes.").waitFor();

    const sent = { 200: 0, 429: 0 };
    for (const [count, path, method, ip] of [
      [500, "/v1/orders/4", "GET", "203.0.113.7"],
      [200, "/v1/orders/5", "GET", "203.0.113.8"],
      [100, "/login", "POST", "203.0.113.7"],
      [100, "/search", "GET", "203.0.113.9"],
      [100, "/", "GET", "203.0.113.7"],
    ] as const) {
      const statuses = await app.send(count, path, { method, ip });
      sent[200] += statuses[200] ?? 0;
      sent[429] += statuses[429] ?? 0;
    }
    expect(sent).toEqual({ 200: 405, 429: 595 });
    await page.getByText("Since the start: 1,000 requests, 595 denied").waitFor({ timeout: 2000 });
    expect(await numbers(page)).toMatchObject({ allowed: "325", denied: "595", wouldDeny: "80" });
    expect(await rowOf(page, "orders").locator("td").nth(1).innerText()).toMatch(/^71%\s+500 of 700$/);
    expect(await rowOf(page, "orders").locator("th").innerText()).toMatch(/^orders\s*enforce\s+\/v1\/orders\/:id$/);
    expect(await rowOf(page, "login").locator("td").nth(1).innerText()).toMatch(/^95%\s+95 of 100$/);
    expect(await rowOf(page, "search").locator("th").innerText()).toContain("shadow");
    expect(await page.locator("#shadow li").innerText()).toMatch(
      /^search would deny 80% of requests, at least 1 client\s+80 of 100 since the start$/,
    );
    expect(await page.locator("#keys tbody tr").allInnerTexts()).toEqual([
      expect.stringMatching(/^[0-9a-f]{8}\s+orders\s+400\s/),
      expect.stringMatching(/^[0-9a-f]{8}\s+orders\s+100\s/),
      expect.stringMatching(/^[0-9a-f]{8}\s+login\s+95\s/),
    ]);
    expect(await page.locator("#chart").getAttribute("aria-label")).toMatch(/325 allowed, 595 denied, 80 would deny/);

    const startedAt = performance.now();
    await app.send(1, "/login", { method: "POST" });
    await page.getByText("Since the start: 1,001 requests, 596 denied").waitFor({ timeout: 2000 });
    expect(performance.now() - startedAt).toBeLessThan(2000);
    expect(problems).toEqual([]);
  });

  it("keeps the token out of the address, and needs it", async () => {
    const app = await start();
    const { page } = await open(app);
    expect(page.url()).toBe(app.page);
    expect(await page.context().cookies()).toMatchObject([
      { name: `sluice-dashboard-${app.port}`, httpOnly: true, sameSite: "Strict", path: "/_sluice" },
    ]);
    const stranger = await (await browser.newContext()).newPage();
    onTestFinished(() => stranger.context().close());
    expect((await stranger.goto(app.page))?.status()).toBe(403);
    const wrong = await stranger.goto(`${app.page}?token=${"x".repeat(43)}`);
    expect([wrong?.status(), await wrong?.text()]).toEqual([403, "Forbidden\n"]);
  });

  it("rejects foreign hosts and origins, also with the token", async () => {
    const app = await start();
    const own = { Authorization: `Bearer ${app.access.token}` };
    for (const path of ["", "/app.js", "/app.css", "/icon.svg", "/data", "/events"]) {
      const url = `${app.page}${path}`;
      expect(await statusOf(url, own), path).toBe(200);
      expect(await statusOf(url, { ...own, Host: "evil.example" }), path).toBe(421);
      expect(await statusOf(url, { ...own, Origin: "https://evil.example" }), path).toBe(403);
      expect(await statusOf(url, {}), path).toBe(403);
    }
    // A page of another origin, in a browser that has the cookie.
    const { page } = await open(app);
    const other = await start();
    await page.goto(`${other.url}/`);
    const read = (mode: RequestMode) =>
      page.evaluate(
        ([url, mode]) => fetch(url, { mode, credentials: "include" }).then(({ status }) => status, String),
        [`${app.page}/data`, mode] as const,
      );
    expect([await read("cors"), await read("no-cors")]).toEqual([
      "TypeError: Failed to fetch",
      "TypeError: Failed to fetch",
    ]);
    expect(app.foreign).toEqual(["403 /_sluice/data", "403 /_sluice/data"]);
  });

  it("looks up a key without putting it into an address", async () => {
    const app = await start();
    const blocks = createLimiter({
      policy: penalty({ strikes: 2, blockMs: "10m", name: "abuse.ip" }),
      store: app.store,
      observer: app.observer,
    });
    await block(blocks, "ip:203.0.113.7", "10m");
    await app.send(3, "/login", { method: "POST" });
    const { page, problems } = await open(app);
    const addresses: string[] = [];
    page.on("request", (request) => addresses.push(request.url()));
    await page.getByLabel("IP address, user").fill("203.0.113.7");
    await page.getByRole("button", { name: "Look up" }).click();
    const row = (policy: string) => page.locator("#found tbody tr").filter({ hasText: policy });
    expect(await row("login.ip").innerText()).toMatch(/^login\.ip\s+as IP address\s+2 of 5\s+no\s+(?:59 min|1 h)$/);
    expect(await row("abuse.ip").innerText()).toMatch(/^abuse\.ip\s+as IP address\s+0 strikes\s+for (?:9|10) min\s/);
    expect(await page.locator("#found").innerText()).toContain("Nothing used of: search.ip, orders.ip");
    expect(addresses.filter((url) => url.includes("203"))).toEqual([]);
    expect(await page.locator("#events li").first().innerText()).toMatch(
      /block-started\s+A key was blocked\. \(abuse\.ip\)/,
    );
    expect(problems).toEqual([]);
  });

  it("shows scripts in keys and names as text", async () => {
    const app = await start();
    await app.send(3, "/script");
    const { page, problems } = await open(app);
    const dialogs: string[] = [];
    page.on("dialog", (dialog) => {
      dialogs.push(dialog.message());
      void dialog.dismiss();
    });
    await rowOf(page, SCRIPT_NAME).waitFor();
    expect(await page.locator("#keys tbody tr td").first().innerText()).toBe(SCRIPT_NAME);
    const key = "<img src=x onerror=alert(2)>";
    await page.getByLabel("IP address, user").fill(key);
    await page.keyboard.press("Enter");
    await page.getByText("Nothing is stored for this key.").waitFor();
    expect(await page.locator("#found").innerText()).toContain(SCRIPT_NAME);
    expect(await page.locator("#found").innerText()).not.toContain(key);
    expect(await page.locator("img").count()).toBe(1);
    expect([dialogs, problems]).toEqual([[], []]);
  });

  it("goes on after the server restarts", async () => {
    const app = await startDashboardApp();
    await app.send(7, "/");
    const { page } = await open(app);
    await page.getByText("Since the start: 7 requests, 0 denied").waitFor();
    await app.close();
    await status(page, "Reconnecting…");
    await screenshot(page, "dashboard-reconnecting");
    const next = await start({ port: app.port, access: app.access });
    await next.send(2, "/");
    await status(page, "Live");
    await page.getByText("Since the start: 2 requests, 0 denied").waitFor();
    expect((await numbers(page)).allowed).toBe("2");
  });

  it("says that access ended if the server has a new token after a restart", async () => {
    const app = await startDashboardApp();
    const { page } = await open(app);
    await app.close();
    await start({ port: app.port });
    await status(page, "Access denied.");
  });

  it("shows an outage of Redis", async () => {
    const redis = await startRedis();
    const client = new Redis(redis.url, { autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 1 });
    client.on("error", () => {});
    onTestFinished(async () => {
      client.disconnect();
      await redis.stop();
    });
    const app = await start({ store: redisStore(client) });
    await app.send(5, "/");
    const { page } = await open(app);
    const tile = (name: string) => page.locator(`#t-${name}`).innerText();
    expect(await tile("stores")).toMatch(/redis\s+up since \d\d:\d\d:\d\d/);
    expect(await tile("latency")).toMatch(/\d ms p99\s+p50 [\d.]+ ms, redis/);
    expect(await tile("degraded")).toMatch(/0\s+Every decision was made by its store/);
    expect(await tile("rules")).toMatch(/[0-9a-f]{8}\s+in force since/);
    await redis.kill();
    await app.send(8, "/");
    await page.getByText("redis is down.").waitFor();
    expect(await tile("stores")).toMatch(/redis\s+down since/);
    expect(await page.locator("#events li").first().innerText()).toMatch(/store-down/);
    await screenshot(page, "dashboard-outage");
  });

  it("can be used with the keyboard", async () => {
    const app = await start();
    await app.send(8, "/login", { method: "POST" });
    const { page } = await open(app);
    const focused = () => page.evaluate(() => document.activeElement?.id || document.activeElement?.tagName);
    const order: (string | undefined)[] = [];
    for (let i = 0; i < 3; i++) {
      await page.keyboard.press("Tab");
      order.push(await focused());
    }
    expect(order).toEqual(["SUMMARY", "key", "BUTTON"]);
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.type("203.0.113.7");
    await page.keyboard.press("Enter");
    await page.locator("#found table").waitFor();
    await page.keyboard.press("Shift+Tab");
    await page.keyboard.press("Enter");
    const minutes = page.locator("#minutes tbody tr");
    await minutes.first().waitFor();
    expect(await minutes.count()).toBe(15);
    await page.keyboard.press("Tab");
    expect(await page.evaluate(() => document.activeElement?.getAttribute("aria-label"))).toBe(
      "Table of the last 15 minutes",
    );
  });

  it("does not move things while it updates", async () => {
    const app = await start();
    const { page } = await open(app, { viewport: { width: 1280, height: 800 } });
    const tops = () =>
      page.evaluate(() => [...document.querySelectorAll("h2")].map((h) => h.getBoundingClientRect().top));
    await app.send(9, "/login", { method: "POST" });
    await page.getByText("Since the start: 9 requests, 4 denied").waitFor();
    const before = await tops();
    await app.send(20, "/login", { method: "POST" });
    await page.getByText("Since the start: 29 requests, 24 denied").waitFor();
    expect(await tops()).toEqual(before);
  });
});

describe.each([360, 390, 1280, 2000])("the page at %s px", (width) => {
  it.each(["light", "dark"] as const)("in %s mode is accessible and fits", async (colorScheme) => {
    const app = await start();
    await Promise.all(
      Array.from({ length: 12 }, async (_, i) => {
        const ip = `203.0.113.${i + 1}`;
        await app.send(3 + i, "/login", { method: "POST", ip });
        await app.send(15 + 2 * i, "/search", { ip });
        await app.send(90 + 3 * i, "/v1/orders/4", { ip });
        await app.send(5 + i, "/v1/reports", { ip });
      }),
    );
    const blocks = createLimiter({
      policy: penalty({ strikes: 2, blockMs: "10m", name: "abuse.ip" }),
      observer: app.observer,
    });
    await block(blocks, "ip:203.0.113.12", "10m");
    const { page, problems } = await open(app, {
      viewport: { width, height: width < 600 ? 844 : 800 },
      colorScheme,
      reducedMotion: "reduce",
    });
    await page.getByLabel("IP address, user").fill("203.0.113.12");
    await page.keyboard.press("Enter");
    await page.locator("#found table").waitFor();
    await page.locator("summary").click();
    expect(await findings(page)).toEqual([]);
    expect(await overflows(page)).toBe(false);
    await page.locator("summary").click();
    await screenshot(page, `dashboard-${width}-${colorScheme}`, true);
    expect(problems).toEqual([]);
  });
});
