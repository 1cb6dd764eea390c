/**
 * Challenges in Chromium, end to end: a page of an Express app on Redis that needs a clearance, and the login example. Both
 * with a stand-in for Turnstile.
 */
import { Redis } from "ioredis";
import type { Browser, BrowserContext, BrowserContextOptions, Page, Response } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { type RedisServer, startRedis } from "../../test/servers/redis-server.js";
import { type SiteverifyServer, startSiteverify } from "../../test/servers/siteverify.js";
import { launchChromium } from "./chromium.ts";
import { checkbox, consoleErrors, findings, overflows, screenshot, solveWithKeyboard } from "./inspect-page.ts";
import { startLoginApp } from "./login-app.ts";
import { PROVIDER_SECRET, startProtectedApp, TTL_MS } from "./protected-app.ts";

let browser: Browser;
let redisServer: RedisServer;
let redis: Redis;
let siteverify: SiteverifyServer;
let app: Awaited<ReturnType<typeof startProtectedApp>>;
let login: Awaited<ReturnType<typeof startLoginApp>>;
beforeAll(async () => {
  [browser, redisServer, siteverify, login] = await Promise.all([
    launchChromium(),
    startRedis(),
    startSiteverify({ secret: PROVIDER_SECRET }),
    startLoginApp(),
  ]);
  redis = new Redis({ host: "127.0.0.1", port: redisServer.port });
  app = await startProtectedApp(redis, siteverify);
});
afterAll(async () => {
  await browser?.close();
  app?.close();
  await login?.close();
  redis?.disconnect();
  await Promise.all([siteverify?.close(), redisServer?.stop()]);
});

let address = "";
let addresses = 0;
beforeEach(() => {
  siteverify.requests.length = 0;
  siteverify.behave("verify");
  app.events.length = 0;
  // A network of its own, with budgets of its own.
  address = `198.51.${++addresses}.7`;
  login.nextVisitor();
});
afterEach(() => void vi.useRealTimers());

/** What a browser received and printed. */
interface Traffic {
  readonly responses: Response[];
  /** Read at once: a browser forgets those of the last page. */
  readonly bodies: Promise<string>[];
  readonly console: string[];
  readonly errors: string[];
}

/** Opens a browser at an IP address, and records its traffic. */
async function openBrowser(options: BrowserContextOptions & { ip?: string } = {}) {
  const { ip, ...more } = options;
  const headers = ip === undefined ? {} : { extraHTTPHeaders: { "X-Forwarded-For": ip } };
  const context = await browser.newContext({ locale: "en-GB", ...headers, ...more });
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const traffic: Traffic = { responses: [], bodies: [], console: [], errors: consoleErrors(page) };
  page.on("response", (response) => {
    traffic.responses.push(response);
    traffic.bodies.push(response.text().catch(() => ""));
  });
  page.on("console", (message) => traffic.console.push(message.text()));
  return { context, page, traffic };
}

/** Opens the page once within its limit, and again. Returns the second response. */
async function openChallenge(page: Page, path = "/page"): Promise<Response | null> {
  expect((await page.goto(`${app.url}/page`))?.status()).toBe(200);
  return page.goto(app.url + path);
}

const welcome = (page: Page) => page.getByRole("heading", { name: "Welcome" }).waitFor();
const hasText = (page: Page, text: string) => page.getByRole("status").filter({ hasText: text }).waitFor();
const originsOf = ({ responses }: Traffic) => [...new Set(responses.map((response) => new URL(response.url()).origin))];

/** Posts a token from the page, as the challenge page does. */
const post = (page: Page, token: string) =>
  page.evaluate(async (token) => {
    const headers = { "Content-Type": "application/json" };
    const response = await fetch("/.sluice/clearance", { method: "POST", headers, body: JSON.stringify({ token }) });
    const text = await response.text();
    return { status: response.status, ...(text && JSON.parse(text)) };
  }, token);

async function clearanceIn(context: BrowserContext) {
  return (await context.cookies()).find(({ name }) => name === "__Host-sluice-clearance");
}

describe("a page whose limit ends in a challenge", () => {
  it("is shown after the challenge is solved, also later, until the limit of the clearance", async () => {
    const { context, page, traffic } = await openBrowser({ ip: address });
    const denied = await openChallenge(page, "/page?a=1#part");
    expect([denied?.status(), denied?.headers()["sluice-mitigated"]]).toEqual([403, "challenge"]);
    expect(await clearanceIn(context)).toBeUndefined();
    await page.getByRole("heading", { name: "Confirm that you are human" }).waitFor();
    await solveWithKeyboard(page);
    await welcome(page);
    expect(page.url()).toBe(`${app.url}/page?a=1#part`);
    expect(await clearanceIn(context)).toMatchObject({ secure: true, httpOnly: true, sameSite: "Lax", path: "/" });
    // A second budget, of 3, and no exemption.
    const statuses = [];
    for (let i = 0; i < 3; i++) statuses.push((await page.goto(`${app.url}/page`))?.status());
    expect(statuses).toEqual([200, 200, 429]);
    expect(traffic.errors).toEqual([]);
    expect(originsOf(traffic).sort()).toEqual([app.url, siteverify.origin].sort());
  });

  it("needs another challenge when the clearance has expired", async () => {
    const { context, page } = await openBrowser({ ip: address });
    await openChallenge(page);
    await checkbox(page).click();
    await welcome(page);
    const before = await clearanceIn(context);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + TTL_MS - 5000 });
    expect((await page.goto(`${app.url}/page`))?.status()).toBe(200);
    vi.setSystemTime(Date.now() + 5001);
    expect((await page.goto(`${app.url}/page`))?.status()).toBe(403);
    // The browser still has it: its clock did not change.
    expect(await clearanceIn(context)).toEqual(before);
    // Else the page would say that the browser did not keep the clearance which it got a second ago.
    await page.evaluate(() => sessionStorage.clear());
    await page.reload();
    await checkbox(page).click();
    await welcome(page);
    expect((await clearanceIn(context))?.value).not.toBe(before?.value);
  });

  it("needs another challenge if the clearance comes from another address", async () => {
    const { context, page } = await openBrowser({ ip: address });
    await openChallenge(page);
    await checkbox(page).click();
    await welcome(page);
    const clearance = await clearanceIn(context);
    if (!clearance) throw new Error("there is no clearance");
    const statusFrom = async (ip: string) => {
      const other = await openBrowser({ ip });
      // Its first request is within the limit of its address.
      await other.page.goto(`${app.url}/page`);
      await other.context.addCookies([clearance]);
      return (await other.page.goto(`${app.url}/page`))?.status();
    };
    expect(await statusFrom("192.0.2.9")).toBe(403);
    // Another address of the same network, which mobile clients often get.
    expect(await statusFrom(address.replace(/7$/, "8"))).toBe(200);
  });

  it("stays denied with 429 while the provider is down, and can be solved afterwards", async () => {
    const { context, page } = await openBrowser({ ip: address });
    await openChallenge(page);
    siteverify.behave("fail");
    const [response] = await Promise.all([
      page.waitForResponse((response) => response.url().endsWith("/.sluice/clearance")),
      checkbox(page).click(),
    ]);
    expect([response.status(), response.headers()["retry-after"]]).toEqual([429, "30"]);
    await hasText(page, "The check can't be verified at the moment.");
    expect(await clearanceIn(context)).toBeUndefined();
    expect(app.events).toMatchObject([{ type: "provider-down", provider: "turnstile" }]);
    siteverify.behave("verify");
    await page.getByRole("button", { name: "Try again" }).press("Enter");
    await solveWithKeyboard(page);
    await welcome(page);
  });

  it("refuses tokens that were used, are old, or are for another hostname or action", async () => {
    const { context, page } = await openBrowser({ ip: address });
    await openChallenge(page);
    const used = siteverify.issue();
    expect(await post(page, used)).toEqual({ status: 204 });
    await context.clearCookies();
    const old = { ageMs: 360_000 };
    for (const [token, code] of [
      [used, "timeout-or-duplicate"],
      [siteverify.issue({ hostname: "other.example" }), "hostname-mismatch"],
      [siteverify.issue({ action: "signup" }), "action-mismatch"],
      [siteverify.issue(old), "timeout-or-duplicate"],
      // The provider does not notice.
      [siteverify.issue({ ...old, isLenient: true }), "token-too-old"],
      ["invented", "invalid-input-response"],
    ] as const) {
      expect(await post(page, token)).toMatchObject({ status: 403, code: "challenge-failed", codes: [code] });
    }
    expect(await clearanceIn(context)).toBeUndefined();
    expect((await page.goto(`${app.url}/page`))?.status()).toBe(403);
  });

  it("sends one POST per verification, and the provider's secret nowhere else", async () => {
    const { page, traffic } = await openBrowser({ ip: address });
    await openChallenge(page);
    await checkbox(page).click();
    await welcome(page);
    expect(siteverify.requests).toHaveLength(1);
    const [request] = siteverify.requests;
    expect(request).toMatchObject({ method: "POST", url: "/siteverify" });
    expect([...(request?.fields ?? [])]).toEqual([
      ["secret", PROVIDER_SECRET],
      ["response", expect.stringMatching(/^T1_/)],
      ["remoteip", address],
    ]);
    expect(request?.headers.join()).not.toContain(PROVIDER_SECRET);

    // Also not if the provider quotes it in an error.
    for (const behaviour of ["fail", "garbage"] as const) {
      siteverify.behave(behaviour);
      expect(await post(page, siteverify.issue())).toMatchObject({ status: 429 });
    }
    expect(siteverify.requests).toHaveLength(3);
    const headers = traffic.responses.map((response) => response.allHeaders());
    const received = JSON.stringify(await Promise.all([...traffic.bodies, ...headers]));
    expect(received).toContain("sluiceReady");
    for (const text of [received, traffic.console.join(), await page.content(), eventText()]) {
      expect(text).not.toContain(PROVIDER_SECRET);
    }
  });

  /** Events with their errors, whose members JSON leaves out. */
  const eventText = () => {
    const errors = app.events.flatMap((event) => ("error" in event ? [event.error] : []));
    expect(errors).toHaveLength(2);
    return errors.map((error) => `${String(error)} ${(error as Error).stack} ${JSON.stringify(error)}`).join();
  };
});

describe("the login example", () => {
  const email = (page: Page) => page.getByLabel("Email");
  const password = (page: Page) => page.getByLabel("Password");
  const challenge = (page: Page) => page.getByText("Confirm that you are human to continue.");
  const loggedIn = (page: Page) => page.getByRole("heading", { name: "Welcome, Ada" }).waitFor();

  async function attempt(page: Page, secret: string, address = "ada@example.com"): Promise<void> {
    await email(page).fill(address);
    await password(page).fill(secret);
    await password(page).press("Enter");
  }

  /** Opens the login page after this many wrong passwords; 3 use up the limit of Ada's account. */
  async function guess(page: Page, count = 3, email = "ada@example.com"): Promise<void> {
    const headers = { "Content-Type": "application/json" };
    const body = JSON.stringify({ email, password: "guess" });
    for (let i = 0; i < count; i++) {
      expect((await fetch(`${login.url}/login`, { method: "POST", headers, body })).status).toBe(401);
    }
    await page.goto(login.url);
  }
  beforeEach(() => login.forget());

  it("shows the challenge in the form, which is solved with the keyboard and sent again", async () => {
    const { context, page, traffic } = await openBrowser();
    await page.goto(login.url);
    for (let i = 0; i < 3; i++) {
      const responded = page.waitForResponse((response) => response.url().endsWith("/login"));
      await attempt(page, `guess ${i}`);
      expect((await responded).status()).toBe(401);
      await hasText(page, "Wrong email or password.");
    }
    // The widget is loaded when it is needed.
    expect(originsOf(traffic)).toEqual([login.url]);
    await attempt(page, "analytical engine");
    await challenge(page).waitFor();
    await solveWithKeyboard(page);
    await loggedIn(page);
    expect(await clearanceIn(context)).toMatchObject({ secure: true, httpOnly: true });
    expect(originsOf(traffic).sort()).toEqual([login.url, login.widgetOrigin].sort());
    expect(traffic.errors).toEqual([]);
    const tokens = login.requests.filter(({ headers }) => headers["sluice-challenge-token"]);
    expect(tokens.map(({ method, path }) => `${method} ${path}`)).toEqual(["POST /login"]);
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByRole("heading", { name: "Log in" }).waitFor();
  });

  it("moves the focus to the challenge, and to the password if that is still wrong", async () => {
    const { page } = await openBrowser();
    await guess(page);
    await attempt(page, "guess");
    await challenge(page).waitFor();
    // The form can still be submitted, which starts again.
    await attempt(page, "guess");
    await page.locator("#challenge:focus").waitFor();
    expect(await page.locator("iframe").count()).toBe(1);
    await solveWithKeyboard(page);
    await hasText(page, "Wrong email or password.");
    await page.locator("#password:focus").waitFor();
    await password(page).fill("analytical engine");
    await page.keyboard.press("Enter");
    await loggedIn(page);
  });

  it("counts down until the next attempt", async () => {
    const { page, traffic } = await openBrowser();
    await page.clock.install();
    await guess(page, 5, "grace@example.com");
    await attempt(page, "first compiler", "grace@example.com");
    await hasText(page, "Too many attempts. Try again after");
    const button = page.getByRole("button");
    expect(await button.isDisabled()).toBe(true);
    expect(await button.textContent()).toMatch(/^Try again in 1[45]:\d\d$/);
    await screenshot(page, "login-wait");
    expect(await findings(page)).toEqual([]);
    await page.clock.fastForward("15:01");
    await page.getByRole("button", { name: "Log in" }).waitFor();
    expect(await button.isEnabled()).toBe(true);
    expect(traffic.errors).toEqual([]);
  });

  it("works without its script: the form is posted, and the challenge page leads back to it", async () => {
    const { page, traffic } = await openBrowser();
    await page.route("**/login.js", (route) => route.fulfill({ contentType: "text/javascript", body: "" }));
    await guess(page);
    await attempt(page, "analytical engine");
    await page.getByText("your form was not submitted").waitFor();
    await solveWithKeyboard(page);
    await page.getByRole("button", { name: "Go back to the form" }).click();
    await attempt(page, "analytical engine");
    await loggedIn(page);
    expect(traffic.errors).toEqual([]);
  });

  it("says so if the widget can't be loaded", async () => {
    const { page } = await openBrowser();
    await page.route(`${login.widgetOrigin}/**`, (route) => route.abort());
    await guess(page);
    await attempt(page, "analytical engine");
    await hasText(page, "The check could not be loaded.");
  });

  describe.each([390, 1280])("at %s px", (width) => {
    it.each(["light", "dark"] as const)("is accessible and fits in %s mode", async (colorScheme) => {
      const viewport = { width, height: width === 390 ? 844 : 800 };
      const { page, traffic } = await openBrowser({ viewport, colorScheme });
      const check = async (name: string) => {
        await screenshot(page, `${name}-${width}-${colorScheme}`);
        expect(await findings(page), name).toEqual([]);
        expect(await overflows(page), name).toBe(false);
      };
      await guess(page, 2);
      await check("login");
      await attempt(page, "guess");
      await hasText(page, "Wrong email or password.");
      await check("login-failed");
      await attempt(page, "analytical engine");
      await checkbox(page).waitFor();
      await check("login-challenge");
      // As in a window of 1280 px at 400 %.
      await page.setViewportSize({ width: 320, height: 640 });
      expect(await overflows(page)).toBe(false);
      await screenshot(page, `login-challenge-320-${colorScheme}`);
      await page.setViewportSize(viewport);
      await checkbox(page).click();
      await loggedIn(page);
      await check("logged-in");
      expect(traffic.errors).toEqual([]);
    });
  });
});
